// Uses AWS SDK for Java v2 with its default chain: one JSON document on standard input, one on standard output.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.URI;
import java.util.HashSet;
import java.util.Set;
import software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider;
import software.amazon.awssdk.awscore.exception.AwsServiceException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.apache.ApacheHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3Client;

public class ContainerDriver {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    JsonNode asked = JSON.readTree(System.in);
    String bucket = asked.get("bucket").asText();
    String key = asked.get("table").asText() + "/data/java";
    String closed = asked.get("closed").asText() + "/data/f";
    ObjectNode told = JSON.createObjectNode();
    Set<String> used = new HashSet<>();
    try (DefaultCredentialsProvider keys = DefaultCredentialsProvider.create();
        S3Client client = S3Client.builder().httpClientBuilder(ApacheHttpClient.builder())
            .endpointOverride(URI.create(asked.get("origin").asText())).region(Region.of(asked.get("region").asText()))
            .credentialsProvider(keys).forcePathStyle(true)
            .overrideConfiguration(each -> each.retryStrategy(with -> with.maxAttempts(1))).build()) {
      client.putObject(each -> each.bucket(bucket).key(key), RequestBody.fromString("written"));
      for (int number = 0; number < asked.get("times").asInt(); number++) {
        String read = client.getObjectAsBytes(each -> each.bucket(bucket).key(key)).asUtf8String();
        if (!read.equals("written")) {
          throw new IllegalStateException(read);
        }
        used.add(keys.resolveCredentials().accessKeyId());
      }
      told.put("read and write", used.size());
      try {
        client.getObjectAsBytes(each -> each.bucket(bucket).key(closed));
        told.put("closed", "works");
      } catch (AwsServiceException refused) {
        told.put("closed", refused.awsErrorDetails().errorCode());
      }
    }
    System.out.println(told);
    System.exit(0);
  }
}
