// Runs statements in a Flink of this process and tells what each of them returned. Reads one statement per line from
// standard input, with its name before a tab; writes one JSON document to standard output.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

public class FlinkDriver {
  public static void main(String[] arguments) throws Exception {
    PrintStream told = System.out;
    // Whatever a library prints is no outcome.
    System.setOut(System.err);
    Configuration settings = new Configuration();
    // Iceberg's pool of threads outlives the job that began it, and a later job's read then fails now and then.
    settings.setString("classloader.check-leaked-classloader", "false");
    TableEnvironment flink =
        TableEnvironment.create(
            EnvironmentSettings.newInstance().inBatchMode().withConfiguration(settings).build());
    flink.getConfig().set("table.display.max-column-width", "100");
    flink.getConfig().set("parallelism.default", "1");
    List<String> outcomes = new ArrayList<>();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      int tab = line.indexOf('\t');
      outcomes.add(quoted(line.substring(0, tab)) + ":" + run(flink, line.substring(tab + 1)));
    }
    told.println("{" + String.join(",", outcomes) + "}");
    told.flush();
    System.exit(0);
  }

  private static String run(TableEnvironment flink, String statement) {
    List<String> rows = new ArrayList<>();
    try {
      TableResult result = flink.executeSql(statement);
      if (statement.startsWith("INSERT")) {
        // Its cluster ends with the job, and would be asked for rows that there are none of.
        result.await();
        return "{\"value\":[]}";
      }
      try (CloseableIterator<Row> found = result.collect()) {
        while (found.hasNext()) {
          rows.add(quoted(found.next().toString()));
        }
      }
    } catch (Exception error) {
      Throwable cause = error;
      while (cause.getCause() != null) {
        cause = cause.getCause();
      }
      String message = quoted(String.valueOf(cause.getMessage()));
      return "{\"error\":" + quoted(cause.getClass().getSimpleName()) + ",\"message\":" + message + "}";
    }
    return "{\"value\":[" + String.join(",", rows) + "]}";
  }

  private static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char each : text.toCharArray()) {
      if (each < ' ' || each == '"' || each == '\\') {
        quoted.append(String.format("\\u%04x", (int) each));
      } else {
        quoted.append(each);
      }
    }
    return quoted.append('"').toString();
  }
}
