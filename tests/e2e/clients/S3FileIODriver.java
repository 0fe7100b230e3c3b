// Drives Iceberg Java's S3FileIO: one JSON document in, the outcome of each step by name out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.iceberg.aws.s3.S3FileIO;
import org.apache.iceberg.io.FileInfo;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.RangeReadable;
import org.apache.iceberg.io.SeekableInputStream;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.CompletedPart;
import software.amazon.awssdk.services.s3.model.Tag;

public class S3FileIODriver {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ObjectNode OUTCOMES = JSON.createObjectNode();

  public static void main(String[] arguments) throws Exception {
    JsonNode asked = JSON.readTree(System.in);
    Map<String, String> properties = JSON.convertValue(
        asked.get("properties"), JSON.getTypeFactory().constructMapType(Map.class, String.class, String.class));
    try (S3FileIO io = new S3FileIO()) {
      io.initialize(properties);
      if (asked.has("ranges")) {
        ranges(io, asked);
      } else {
        files(io, asked);
        // A release that refuses its properties has no client; "write" says why.
        if (OUTCOMES.get("write").has("value")) {
          requests(io.client(), asked);
        }
        denied(io, asked);
      }
      for (Map.Entry<String, JsonNode> variant : asked.get("variants").properties()) {
        Map<String, String> with = new HashMap<>(properties);
        variant.getValue().properties().forEach(entry -> with.put(entry.getKey(), entry.getValue().asText()));
        variant(variant.getKey(), with, asked);
      }
      step("end", () -> write(io, asked.get("root").asText() + "/end", new byte[0]));
    }
    System.out.write(JSON.writeValueAsBytes(OUTCOMES));
    System.out.flush();
  }

  private static void files(S3FileIO io, JsonNode asked) {
    String root = asked.get("root").asText();
    String plain = root + "/data/plain.txt";
    String large = root + "/data/large";
    int size = asked.get("large").asInt();
    step("write", () -> write(io, plain, "0123456789".repeat(10).getBytes(StandardCharsets.UTF_8)));
    step("read", () -> read(io, plain));
    step("read_seek", () -> seek(io, plain, 42, 4));
    step("read_range", () -> range(io, plain, 95, 5));
    step("read_tail", () -> tail(io, plain, 3));
    step("length", () -> io.newInputFile(plain).getLength());
    step("exists", () -> io.newInputFile(plain).exists());
    step("exists_missing", () -> io.newInputFile(root + "/data/missing").exists());
    step("read_missing", () -> read(io, root + "/data/missing"));
    step("write_empty", () -> write(io, root + "/data/empty", new byte[0]));
    step("write_multipart", () -> write(io, large, new byte[size]));
    step("length_multipart", () -> io.newInputFile(large).getLength());
    step("read_multipart_tail", () -> tail(io, large, 2).length());
    for (JsonNode key : asked.get("keys")) {
      String location = root + "/" + key.asText();
      step("write " + key.asText(), () -> write(io, location, key.asText().getBytes(StandardCharsets.UTF_8)));
      step("read " + key.asText(), () -> read(io, location));
    }
    step("list", () -> list(io, root + "/data/"));
    step("list_none", () -> list(io, root + "/nothing/"));
    step("delete", () -> delete(io, plain));
    step("delete_bulk", () -> {
      List<String> all = new ArrayList<>(List.of(large, root + "/data/empty"));
      asked.get("keys").forEach(key -> all.add(root + "/" + key.asText()));
      io.deleteFiles(all);
      return all.size();
    });
    step("list_after_delete", () -> list(io, root + "/data/"));
  }

  /** What S3FileIO does in trouble and in bulk, and what SDKs can do besides: by its own client, so with its signer. */
  private static void requests(S3Client s3, JsonNode asked) {
    String bucket = asked.get("bucket").asText();
    String root = asked.get("root").asText().substring("s3://".length() + bucket.length() + 1);
    String key = root + "/data/requests";
    RequestBody part = RequestBody.fromBytes(new byte[5 * 1024 * 1024]);
    step("put", () -> s3.putObject(r -> r.bucket(bucket).key(key), RequestBody.fromString("0123456789")).eTag() != null);
    step("list_pages", () -> {
      for (int number = 0; number < 5; number++) {
        String name = root + "/pages/" + number;
        s3.putObject(r -> r.bucket(bucket).key(name), RequestBody.empty());
      }
      return s3.listObjectsV2Paginator(r -> r.bucket(bucket).prefix(root + "/pages/").maxKeys(2)).contents().stream()
          .count();
    });
    step("abort", () -> {
      String aborted = root + "/data/aborted";
      String upload = s3.createMultipartUpload(r -> r.bucket(bucket).key(aborted)).uploadId();
      s3.uploadPart(r -> r.bucket(bucket).key(aborted).uploadId(upload).partNumber(1), part);
      int parts = s3.listParts(r -> r.bucket(bucket).key(aborted).uploadId(upload)).parts().size();
      s3.abortMultipartUpload(r -> r.bucket(bucket).key(aborted).uploadId(upload));
      return parts;
    });
    step("copy", () -> {
      s3.copyObject(
          r -> r.sourceBucket(bucket).sourceKey(key).destinationBucket(bucket).destinationKey(root + "/data/copied"));
      return s3.getObjectAsBytes(r -> r.bucket(bucket).key(root + "/data/copied")).asUtf8String();
    });
    step("copy_part", () -> {
      String joined = root + "/data/joined";
      String upload = s3.createMultipartUpload(r -> r.bucket(bucket).key(joined)).uploadId();
      String tag = s3.uploadPartCopy(
          r -> r.sourceBucket(bucket).sourceKey(key).destinationBucket(bucket).destinationKey(joined).uploadId(upload)
              .partNumber(1)).copyPartResult().eTag();
      CompletedPart copied = CompletedPart.builder().partNumber(1).eTag(tag).build();
      s3.completeMultipartUpload(
          r -> r.bucket(bucket).key(joined).uploadId(upload).multipartUpload(u -> u.parts(copied)));
      return s3.headObject(r -> r.bucket(bucket).key(joined)).contentLength();
    });
    step("get_if_match", () -> {
      String tag = s3.headObject(r -> r.bucket(bucket).key(key)).eTag();
      return s3.getObjectAsBytes(r -> r.bucket(bucket).key(key).ifMatch(tag)).asUtf8String();
    });
    step("tags", () -> {
      Tag tag = Tag.builder().key("team").value("sales").build();
      s3.putObjectTagging(r -> r.bucket(bucket).key(key).tagging(t -> t.tagSet(tag)));
      return s3.getObjectTagging(r -> r.bucket(bucket).key(key)).tagSet().get(0).value();
    });
    step("get_acl", () -> s3.getObjectAcl(r -> r.bucket(bucket).key(key)).toString());
    step("put_acl", () -> s3.putObjectAcl(r -> r.bucket(bucket).key(key).acl("public-read")).toString());
    step("delete_tags", () -> s3.deleteObjectTagging(r -> r.bucket(bucket).key(key)).toString());
    step("head_bucket", () -> s3.headBucket(r -> r.bucket(bucket)).toString());
    step("list_v1", () -> s3.listObjects(r -> r.bucket(bucket).prefix(root + "/")).toString());
    step("list_bucket", () -> s3.listObjectsV2(r -> r.bucket(bucket)).toString());
    step("list_buckets", () -> s3.listBuckets().toString());
    step("list_versions", () -> s3.listObjectVersions(r -> r.bucket(bucket).prefix(root + "/")).toString());
    step("bucket_policy", () -> s3.getBucketPolicy(r -> r.bucket(bucket)).toString());
    step("delete_bucket", () -> s3.deleteBucket(r -> r.bucket(bucket)).toString());
  }

  /** Reads pieces of one file, as a Parquet reader does; some of them twice. */
  private static void ranges(S3FileIO io, JsonNode asked) {
    String location = asked.get("root").asText() + "/data/ranges";
    int count = asked.get("ranges").asInt();
    step("write", () -> write(io, location, "0123456789".repeat(count).getBytes(StandardCharsets.UTF_8)));
    step("ranges", () -> {
      List<String> found = new ArrayList<>();
      for (int number = 0; number < count; number++) {
        found.add(range(io, location, 10 * number + number % 10, 1));
      }
      return String.join("", found);
    });
    step("tail", () -> tail(io, location, 3));
    step("read", () -> read(io, location).length());
    step("length", () -> io.newInputFile(location).getLength());
    step("overwrite", () -> write(io, location, "abc".getBytes(StandardCharsets.UTF_8)));
    step("read_overwritten", () -> read(io, location));
    step("delete_first", () -> {
      io.deleteFiles(List.of(location));
      return io.newInputFile(location).exists();
    });
    step("delete_second", () -> {
      write(io, location + "-2", new byte[0]);
      io.deleteFiles(List.of(location + "-2"));
      return io.newInputFile(location + "-2").exists();
    });
  }

  /** Writes with properties that add headers, and reads what was written. */
  private static void variant(String name, Map<String, String> properties, JsonNode asked) {
    String root = asked.get("root").asText() + "/" + name.replace(' ', '-');
    int size = asked.get("large").asInt();
    try (S3FileIO io = new S3FileIO()) {
      io.initialize(properties);
      step(name + ": write", () -> write(io, root + "/plain", "0123456789".getBytes(StandardCharsets.UTF_8)));
      if (!OUTCOMES.get(name + ": write").has("value")) {
        return;
      }
      step(name + ": read", () -> read(io, root + "/plain"));
      step(name + ": multipart", () -> write(io, root + "/large", new byte[size]));
      step(name + ": length", () -> io.newInputFile(root + "/large").getLength());
      step(name + ": delete", () -> {
        io.deleteFiles(List.of(root + "/plain", root + "/large"));
        return list(io, root + "/").size();
      });
    }
  }

  private static void denied(S3FileIO io, JsonNode asked) {
    String denied = asked.get("denied").asText();
    String readOnly = asked.get("read_only").asText();
    String root = asked.get("root").asText();
    byte[] content = "{}".getBytes(StandardCharsets.UTF_8);
    step("denied_read", () -> read(io, denied + "/data/file"));
    step("denied_write", () -> write(io, denied + "/data/new", content));
    step("denied_list", () -> list(io, denied + "/"));
    step("denied_bulk", () -> {
      io.deleteFiles(List.of(root + "/data/a", denied + "/data/file"));
      return "deleted";
    });
    step("read_only_read", () -> read(io, readOnly + "/data/file"));
    step("read_only_write", () -> write(io, readOnly + "/data/new", content));
    step("metadata_write", () -> write(io, root + "/metadata/00000-a.metadata.json", content));
    String once = asked.get("once").asText();
    step("once_write", () -> write(io, once + "/data/once", "first".getBytes(StandardCharsets.UTF_8)));
    step("once_overwrite", () -> write(io, once + "/data/once", "second".getBytes(StandardCharsets.UTF_8)));
    step("once_read", () -> read(io, once + "/data/once"));
    step("once_lost", () -> write(io, once + "/answer-is-lost/once", "first".getBytes(StandardCharsets.UTF_8)));
    step("once_lost_read", () -> read(io, once + "/answer-is-lost/once"));
    step("manifest_write", () -> write(io, root + "/metadata/snap-1.avro", content));
  }

  private static int write(S3FileIO io, String location, byte[] content) throws Exception {
    try (PositionOutputStream stream = io.newOutputFile(location).createOrOverwrite()) {
      stream.write(content);
    }
    return content.length;
  }

  private static String read(S3FileIO io, String location) throws Exception {
    try (SeekableInputStream stream = io.newInputFile(location).newStream()) {
      return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private static String seek(S3FileIO io, String location, int position, int length) throws Exception {
    try (SeekableInputStream stream = io.newInputFile(location).newStream()) {
      stream.seek(position);
      return new String(stream.readNBytes(length), StandardCharsets.UTF_8);
    }
  }

  private static String range(S3FileIO io, String location, int position, int length) throws Exception {
    byte[] found = new byte[length];
    try (SeekableInputStream stream = io.newInputFile(location).newStream()) {
      ((RangeReadable) stream).readFully(position, found, 0, length);
    }
    return new String(found, StandardCharsets.UTF_8);
  }

  private static String tail(S3FileIO io, String location, int length) throws Exception {
    byte[] found = new byte[length];
    try (SeekableInputStream stream = io.newInputFile(location).newStream()) {
      ((RangeReadable) stream).readTail(found, 0, length);
    }
    return new String(found, StandardCharsets.UTF_8);
  }

  private static List<String> list(S3FileIO io, String prefix) {
    List<String> found = new ArrayList<>();
    for (FileInfo file : io.listPrefix(prefix)) {
      found.add(file.location());
    }
    return found;
  }

  private static String delete(S3FileIO io, String location) {
    io.deleteFile(location);
    return location;
  }

  private static String causes(Throwable error) {
    List<String> told = new ArrayList<>();
    for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
      told.add(cause.getClass().getSimpleName() + ": " + cause.getMessage());
    }
    return String.join("\n", told);
  }

  private static void step(String name, Callable<Object> action) {
    ObjectNode outcome = OUTCOMES.putObject(name);
    try {
      outcome.set("value", JSON.valueToTree(action.call()));
    } catch (Exception error) {
      outcome.put("error", error.getClass().getSimpleName());
      outcome.put("message", String.valueOf(error.getMessage()));
      outcome.put("cause", causes(error));
    }
  }
}
