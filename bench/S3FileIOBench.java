// Times Iceberg Java's S3FileIO in several modes, in turns: one JSON document in, nanoseconds of each round by mode out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.aws.s3.S3FileIO;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.RangeReadable;
import org.apache.iceberg.io.SeekableInputStream;

public class S3FileIOBench {
  private static final ObjectMapper JSON = new ObjectMapper();

  private record Mode(String name, String root, S3FileIO io) {}

  public static void main(String[] arguments) throws Exception {
    JsonNode asked = JSON.readTree(System.in);
    int objects = asked.get("objects").asInt();
    byte[] content = new byte[asked.get("object_bytes").asInt()];
    List<Mode> modes = new ArrayList<>();
    ObjectNode taken = JSON.createObjectNode();
    for (JsonNode mode : asked.get("modes")) {
      Map<String, String> properties = JSON.convertValue(
          mode.get("properties"), JSON.getTypeFactory().constructMapType(Map.class, String.class, String.class));
      S3FileIO io = new S3FileIO();
      io.initialize(properties);
      Mode made = new Mode(mode.get("name").asText(), mode.get("root").asText(), io);
      modes.add(made);
      taken.putArray(made.name());
      for (int number = 0; number < objects; number++) {
        write(io, made.root() + "/read-" + number, content);
      }
    }
    // The first rounds pay for the JIT compiler; they are made like the others and not told.
    int warm = asked.get("warm_up").asInt();
    for (int round = -warm; round < asked.get("rounds").asInt(); round++) {
      for (Mode mode : modes) {
        long nanoseconds = round(mode, asked);
        if (round >= 0) {
          taken.withArray(mode.name()).add(nanoseconds);
        }
      }
      // Every second round runs backwards, so that a drift favours no contender.
      Collections.reverse(modes);
    }
    for (Mode mode : modes) {
      mode.io().close();
    }
    System.out.write(JSON.writeValueAsBytes(taken));
    System.out.flush();
  }

  private static long round(Mode mode, JsonNode asked) throws Exception {
    int gets = asked.get("gets").asInt();
    int puts = asked.get("puts").asInt();
    int objects = asked.get("objects").asInt();
    int size = asked.get("object_bytes").asInt();
    byte[] range = new byte[asked.get("range_bytes").asInt()];
    byte[] written = new byte[range.length];
    long begun = System.nanoTime();
    for (int number = 0; number < gets; number++) {
      long position = (long) number * 7919 % (size - range.length);
      read(mode.io(), mode.root() + "/read-" + number % objects, position, range);
      // The writes are spread evenly among the reads.
      if ((long) number * puts / gets != (long) (number + 1) * puts / gets) {
        write(mode.io(), mode.root() + "/written-" + number, written);
      }
    }
    return System.nanoTime() - begun;
  }

  private static void write(S3FileIO io, String location, byte[] content) throws Exception {
    try (PositionOutputStream stream = io.newOutputFile(location).createOrOverwrite()) {
      stream.write(content);
    }
  }

  private static void read(S3FileIO io, String location, long position, byte[] range) throws Exception {
    try (SeekableInputStream stream = io.newInputFile(location).newStream()) {
      ((RangeReadable) stream).readFully(position, range, 0, range.length);
    }
  }
}
