// Uses AWS SDK for Java v2: one JSON document on standard input, one JSON line for each step on standard output.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentials;
import software.amazon.awssdk.auth.credentials.AwsSessionCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.awscore.exception.AwsServiceException;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.apache.ApacheHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.S3Configuration;
import software.amazon.awssdk.services.s3.model.ChecksumAlgorithm;
import software.amazon.awssdk.services.s3.model.ChecksumMode;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.model.S3Object;
import software.amazon.awssdk.services.s3.presigner.S3Presigner;
import software.amazon.awssdk.transfer.s3.S3TransferManager;

public class S3SdkDriver {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final byte[] LARGE = "large-".repeat(3_000_000).getBytes(StandardCharsets.UTF_8);

  public static void main(String[] arguments) throws Exception {
    JsonNode asked = JSON.readTree(System.in);
    String token = asked.get("session_token").asText();
    String id = asked.get("access_key").asText();
    String secret = asked.get("secret").asText();
    AwsCredentials key =
        token.isEmpty() ? AwsBasicCredentials.create(id, secret) : AwsSessionCredentials.create(id, secret, token);
    StaticCredentialsProvider keys = StaticCredentialsProvider.create(key);
    URI origin = URI.create(asked.get("origin").asText());
    Region region = Region.of(asked.get("region").asText());
    String bucket = asked.get("bucket").asText();
    try (S3Client client = S3Client.builder().httpClientBuilder(ApacheHttpClient.builder()).endpointOverride(origin)
        .region(region).credentialsProvider(keys).forcePathStyle(true)
       .overrideConfiguration(each -> each.retryStrategy(with -> with.maxAttempts(1))).build()) {
      // What was written is looked at before it is deleted: each phase is a run of its own.
      if (asked.get("phase").asText().equals("clean-up")) {
        cleanUp(client, bucket);
        System.exit(0);
      }
      sync(client, bucket, asked);
      S3Presigner presigner = S3Presigner.builder().endpointOverride(origin).region(region).credentialsProvider(keys)
          .serviceConfiguration(S3Configuration.builder().pathStyleAccessEnabled(true).build()).build();
      presigned(presigner, bucket);
      try (S3AsyncClient crt = S3AsyncClient.crtBuilder().endpointOverride(origin).region(region)
          .credentialsProvider(keys).forcePathStyle(true).minimumPartSizeInBytes(8L << 20).build()) {
        async("CRT", crt, bucket, asked);
      }
      try (S3AsyncClient netty = S3AsyncClient.builder().endpointOverride(origin).region(region)
          .credentialsProvider(keys).forcePathStyle(true).multipartEnabled(true).build()) {
        async("Netty", netty, bucket, asked);
      }
      step("no upload is left",
          () -> client.listMultipartUploads(each -> each.bucket(bucket)).uploads().size());
    }
    System.exit(0);
  }

  private static void sync(S3Client client, String bucket, JsonNode asked) {
    for (JsonNode name : asked.get("names")) {
      String key = name.asText();
      step("PutObject " + key, () -> client.putObject(
          each -> each.bucket(bucket).key(key).contentType("text/plain").metadata(Map.of("a", "b c")),
          RequestBody.fromString(key)).eTag());
      step("HeadObject " + key, () -> {
        var answer = client.headObject(each -> each.bucket(bucket).key(key).checksumMode(ChecksumMode.ENABLED));
        return List.of(answer.contentLength(), answer.contentType(), answer.metadata(), answer.eTag());
      });
      step("GetObject " + key,
          () -> client.getObjectAsBytes(each -> each.bucket(bucket).key(key)).asUtf8String());
    }
    step("PutObject of nothing",
        () -> client.putObject(each -> each.bucket(bucket).key("empty"), RequestBody.empty()).eTag());
    step("PutObject of a stream", () -> client.putObject(each -> each.bucket(bucket).key("stream"),
        RequestBody.fromInputStream(new ByteArrayInputStream(LARGE), LARGE.length)).eTag());
    for (ChecksumAlgorithm algorithm : List.of(ChecksumAlgorithm.CRC32, ChecksumAlgorithm.CRC32_C,
        ChecksumAlgorithm.SHA1, ChecksumAlgorithm.SHA256)) {
      step("PutObject " + algorithm, () -> client.putObject(
          each -> each.bucket(bucket).key("checked").checksumAlgorithm(algorithm),
          RequestBody.fromString("checked")).eTag());
      step("GetObject after " + algorithm, () -> client.getObjectAsBytes(
          each -> each.bucket(bucket).key("checked").checksumMode(ChecksumMode.ENABLED)).asUtf8String());
    }
    step("PutObject with a wrong checksum", () -> client.putObject(
        each -> each.bucket(bucket).key("wrong").checksumCRC32("AAAAAA=="), RequestBody.fromString("wrong")).eTag());
    step("GetObject range", () -> client.getObjectAsBytes(
        each -> each.bucket(bucket).key("stream").range("bytes=3-9")).asUtf8String());
    step("GetObject missing", () -> client.getObjectAsBytes(each -> each.bucket(bucket).key("missing")).asUtf8String());
    step("HeadObject missing", () -> client.headObject(each -> each.bucket(bucket).key("missing")).eTag());
    step("HeadBucket", () -> client.headBucket(each -> each.bucket(bucket)).sdkHttpResponse().statusCode());
    step("CopyObject", () -> client.copyObject(each -> each.sourceBucket(bucket).sourceKey("checked")
        .destinationBucket(bucket).destinationKey("copied")).copyObjectResult().eTag());
    step("ListObjectsV2 in pages", () -> client.listObjectsV2Paginator(
        each -> each.bucket(bucket).maxKeys(3)).contents().stream().map(S3Object::key).toList());
  }

  private static void async(String name, S3AsyncClient client, String bucket, JsonNode asked) {
    String below = name + "/";
    for (JsonNode each : asked.get("names")) {
      String key = below + each.asText();
      step(name + " PutObject " + key, () -> client.putObject(
          request -> request.bucket(bucket).key(key), AsyncRequestBody.fromString(key)).join().eTag());
      step(name + " GetObject " + key, () -> client.getObject(request -> request.bucket(bucket).key(key),
          AsyncResponseTransformer.toBytes()).join().asUtf8String());
    }
    step(name + " GetObject missing", () -> client.getObject(request -> request.bucket(bucket).key("missing"),
        AsyncResponseTransformer.toBytes()).join().asUtf8String());
    Path file = Path.of("large-" + name);
    Path back = Path.of("back-" + name);
    try (S3TransferManager transfers = S3TransferManager.builder().s3Client(client).build()) {
      step(name + " TransferManager upload", () -> {
        Files.write(file, LARGE);
        return transfers.uploadFile(each -> each.source(file).putObjectRequest(
            put -> put.bucket(bucket).key(below + "large"))).completionFuture().join().response().eTag();
      });
      step(name + " TransferManager download", () -> {
        transfers.downloadFile(each -> each.destination(back).getObjectRequest(
            get -> get.bucket(bucket).key(below + "large"))).completionFuture().join();
        return Arrays.equals(Files.readAllBytes(back), LARGE);
      });
      step(name + " TransferManager copy", () -> transfers.copy(each -> each.copyObjectRequest(
          copy -> copy.sourceBucket(bucket).sourceKey(below + "large").destinationBucket(bucket)
              .destinationKey(below + "copied"))).completionFuture().join().response().copyObjectResult().eTag());
    }
  }

  private static void presigned(S3Presigner presigner, String bucket) {
    // The default client of Java offers HTTP/2 with its first request.
    HttpClient http = HttpClient.newHttpClient();
    Duration life = Duration.ofMinutes(1);
    step("presigned PUT", () -> {
      var made = presigner.presignPutObject(each -> each.signatureDuration(life).putObjectRequest(
          put -> put.bucket(bucket).key("presigned").contentType("text/plain")));
      return fetch(http, made.url().toURI(), "PUT", made.signedHeaders(), "by URL");
    });
    step("presigned GET", () -> {
      var made = presigner.presignGetObject(
          each -> each.signatureDuration(life).getObjectRequest(get -> get.bucket(bucket).key("presigned")));
      return fetch(http, made.url().toURI(), "GET", made.signedHeaders(), "");
    });
    step("presigned GET missing", () -> {
      var made = presigner.presignGetObject(
          each -> each.signatureDuration(life).getObjectRequest(get -> get.bucket(bucket).key("missing")));
      return fetch(http, made.url().toURI(), "GET", made.signedHeaders(), "");
    });
    step("presigned DELETE", () -> {
      var made = presigner.presignDeleteObject(
          each -> each.signatureDuration(life).deleteObjectRequest(get -> get.bucket(bucket).key("presigned")));
      return fetch(http, made.url().toURI(), "DELETE", made.signedHeaders(), "");
    });
  }

  private static List<Object> fetch(
      HttpClient http, URI url, String method, Map<String, List<String>> signed, String body) throws Exception {
    HttpRequest.BodyPublisher content =
        body.isEmpty() ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body);
    HttpRequest.Builder request = HttpRequest.newBuilder(url).method(method, content);
    signed.forEach((name, values) -> {
      if (!name.equalsIgnoreCase("host") && !name.equalsIgnoreCase("content-length")) {
        values.forEach(value -> request.header(name, value));
      }
    });
    HttpResponse<String> answer = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
    if (answer.statusCode() >= 300) {
      throw new Refused(answer.statusCode(), answer.body());
    }
    return List.of(answer.statusCode(), answer.body());
  }

  private static void cleanUp(S3Client client, String bucket) {
    step("DeleteObject", () -> client.deleteObject(
        each -> each.bucket(bucket).key("copied")).sdkHttpResponse().statusCode());
    step("DeleteObjects", () -> {
      List<ObjectIdentifier> every = new ArrayList<>();
      client.listObjectsV2Paginator(each -> each.bucket(bucket)).contents()
          .forEach(found -> every.add(ObjectIdentifier.builder().key(found.key()).build()));
      var answer = client.deleteObjects(each -> each.bucket(bucket).delete(all -> all.objects(every)));
      return List.of(answer.deleted().stream().map(each -> each.key()).sorted().toList(), answer.errors().size());
    });
    step("nothing is left", () -> client.listObjectsV2(each -> each.bucket(bucket)).contents().size());
  }

  /** What a URL was answered with, where that is no success. */
  private static final class Refused extends RuntimeException {
    final int status;

    Refused(int status, String body) {
      super(body.replaceFirst("(?s).*<Code>([^<]*).*", "$1"));
      this.status = status;
    }
  }

  private static void step(String name, Callable<Object> action) {
    ObjectNode told = JSON.createObjectNode().put("step", name);
    try {
      told.set("value", JSON.valueToTree(action.call()));
    } catch (Exception failed) {
      Throwable cause = failed instanceof CompletionException ? failed.getCause() : failed;
      if (cause instanceof AwsServiceException refused) {
        told.put("error", String.valueOf(refused.awsErrorDetails().errorCode())).put("status", refused.statusCode());
      } else if (cause instanceof Refused refused) {
        told.put("error", "refused " + refused.getMessage()).put("status", refused.status);
      } else {
        told.put("error", cause.getClass().getSimpleName()).put("text", String.valueOf(cause.getMessage()));
      }
    }
    System.out.println(told);
  }
}
