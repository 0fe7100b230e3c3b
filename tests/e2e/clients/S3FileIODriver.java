// Drives Iceberg Java's S3FileIO: one JSON document in, the outcome of each step by name out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.iceberg.aws.s3.S3FileIO;
import org.apache.iceberg.io.FileInfo;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.RangeReadable;
import org.apache.iceberg.io.SeekableInputStream;

public class S3FileIODriver {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ObjectNode OUTCOMES = JSON.createObjectNode();

  public static void main(String[] arguments) throws Exception {
    JsonNode asked = JSON.readTree(System.in);
    Map<String, String> properties = JSON.convertValue(
        asked.get("properties"), JSON.getTypeFactory().constructMapType(Map.class, String.class, String.class));
    try (S3FileIO io = new S3FileIO()) {
      io.initialize(properties);
      files(io, asked);
      denied(io, asked);
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

  private static void step(String name, Callable<Object> action) {
    ObjectNode outcome = OUTCOMES.putObject(name);
    try {
      outcome.set("value", JSON.valueToTree(action.call()));
    } catch (Exception error) {
      outcome.put("error", error.getClass().getSimpleName());
      outcome.put("message", String.valueOf(error.getMessage()));
      Throwable cause = error.getCause();
      outcome.put("cause", cause == null ? "" : cause.getClass().getSimpleName() + ": " + cause.getMessage());
    }
  }
}
