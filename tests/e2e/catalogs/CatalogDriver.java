// Drives Iceberg Java's REST catalog and the FileIO of its tables: one JSON document in, the outcome of each step out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.SeekableInputStream;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Types;

public class CatalogDriver {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ObjectNode OUTCOMES = JSON.createObjectNode();

  private static final Schema SCHEMA = new Schema(
      Types.NestedField.optional(1, "id", Types.LongType.get()),
      Types.NestedField.optional(2, "city", Types.StringType.get()));
  private static final PartitionSpec SPEC = PartitionSpec.builderFor(SCHEMA).identity("city").build();

  public static void main(String[] arguments) throws Exception {
    JsonNode asked = JSON.readTree(System.in);
    Namespace namespace = Namespace.of(asked.get("namespace").asText());
    List<String> cities = new ArrayList<>();
    asked.get("cities").forEach(city -> cities.add(city.asText()));
    try (RESTCatalog writer = catalog("writer", asked);
        RESTCatalog planner = catalog("planner", asked);
        RESTCatalog reader = catalog("reader", asked)) {
      if (asked.has("seconds")) {
        lasting(writer, TableIdentifier.of(namespace, "lasting"), asked.get("seconds").asInt());
      } else {
        changes(writer, TableIdentifier.of(namespace, "first"), cities);
        askedOfTheCatalog(planner, TableIdentifier.of(namespace, "first"));
        transactions(writer, namespace);
        users(writer, reader, namespace);
        drops(writer, namespace);
      }
    }
    System.out.write(JSON.writeValueAsBytes(OUTCOMES));
    System.out.flush();
  }

  private static RESTCatalog catalog(String name, JsonNode asked) {
    Map<String, String> properties = JSON.convertValue(
        asked.get(name), JSON.getTypeFactory().constructMapType(Map.class, String.class, String.class));
    RESTCatalog catalog = new RESTCatalog();
    catalog.initialize(name, properties);
    return catalog;
  }

  private static void changes(RESTCatalog catalog, TableIdentifier name, List<String> cities) {
    step("create", () -> catalog.createTable(name, SCHEMA, SPEC).schemas().size());
    step("append", () -> {
      for (String city : cities) {
        Table table = catalog.loadTable(name);
        table.newAppend().appendFile(write(table, city)).commit();
      }
      return cities.size();
    });
    step("scan", () -> scan(catalog.loadTable(name)));
    step("scan by partition", () -> {
      Map<String, Integer> found = new TreeMap<>();
      for (String city : cities) {
        try (CloseableIterable<FileScanTask> tasks =
            catalog.loadTable(name).newScan().filter(Expressions.equal("city", city)).planFiles()) {
          tasks.forEach(task -> found.merge(city, 1, Integer::sum));
        }
      }
      return found;
    });
    step("overwrite", () -> {
      Table table = catalog.loadTable(name);
      table.newOverwrite().overwriteByRowFilter(Expressions.equal("city", cities.get(0)))
          .addFile(write(table, "overwritten")).commit();
      return scan(table).size();
    });
    step("delete", () -> {
      Table table = catalog.loadTable(name);
      table.newDelete().deleteFromRowFilter(Expressions.equal("city", cities.get(1))).commit();
      return scan(table).size();
    });
    step("properties", () -> {
      catalog.loadTable(name).updateProperties().set("owner", "sales").commit();
      return catalog.loadTable(name).properties().get("owner");
    });
    step("metadata tables", () -> {
      TableIdentifier files = TableIdentifier.of(name.namespace().level(0), name.name(), "files");
      try (CloseableIterable<FileScanTask> tasks = catalog.loadTable(files).newScan().planFiles()) {
        return tasks.iterator().hasNext();
      }
    });
  }

  /** What this user has the catalog do: plan scans, answer in pages, leave old snapshots out. */
  private static void askedOfTheCatalog(RESTCatalog catalog, TableIdentifier name) {
    step("scan planned by the catalog", () -> scan(catalog.loadTable(name)).size());
    step("pages", () -> {
      for (int number = 0; number < 3; number++) {
        catalog.createTable(TableIdentifier.of(name.namespace(), "page" + number), SCHEMA);
      }
      int listed = catalog.listTables(name.namespace()).size();
      for (int number = 0; number < 3; number++) {
        catalog.dropTable(TableIdentifier.of(name.namespace(), "page" + number), false);
      }
      return listed;
    });
  }

  private static void transactions(RESTCatalog catalog, Namespace namespace) {
    TableIdentifier staged = TableIdentifier.of(namespace, "staged");
    TableIdentifier moved = TableIdentifier.of(namespace, "moved");
    TableIdentifier renamed = TableIdentifier.of(namespace, "renamed");
    step("staged create", () -> {
      Transaction transaction = catalog.newCreateTableTransaction(staged, SCHEMA, SPEC);
      // Written before there is a table.
      transaction.newAppend().appendFile(write(transaction.table(), "staged")).commit();
      transaction.commitTransaction();
      return scan(catalog.loadTable(staged)).size();
    });
    step("abandoned create", () -> {
      Transaction transaction =
          catalog.newCreateTableTransaction(TableIdentifier.of(namespace, "abandoned"), SCHEMA, SPEC);
      DataFile file = write(transaction.table(), "abandoned");
      transaction.table().io().deleteFile(file.location());
      return transaction.table().io().newInputFile(file.location()).exists();
    });
    step("replace", () -> {
      Transaction transaction = catalog.newReplaceTableTransaction(staged, SCHEMA, SPEC, false);
      for (String city : List.of("one", "two")) {
        transaction.newAppend().appendFile(write(transaction.table(), city)).commit();
      }
      transaction.commitTransaction();
      return scan(catalog.loadTable(staged)).size();
    });
    step("rename", () -> {
      Table table = catalog.createTable(moved, SCHEMA, SPEC);
      table.newAppend().appendFile(write(table, "before")).commit();
      catalog.renameTable(moved, renamed);
      Table after = catalog.loadTable(renamed);
      after.newAppend().appendFile(write(after, "after")).commit();
      return scan(after).size();
    });
  }

  private static void users(RESTCatalog writer, RESTCatalog reader, Namespace namespace) {
    TableIdentifier first = TableIdentifier.of(namespace, "first");
    TableIdentifier staged = TableIdentifier.of(namespace, "staged");
    step("reader: scan", () -> scan(reader.loadTable(first)).size());
    step("reader: append", () -> {
      Table table = reader.loadTable(first);
      table.newAppend().appendFile(write(table, "not permitted")).commit();
      return "appended";
    });
    step("reader: closed table", () -> scan(reader.loadTable(staged)).size());
    step("reader: list", () -> reader.listTables(namespace).stream().map(TableIdentifier::name).sorted().toList());
    step("writer: list", () -> writer.listTables(namespace).stream().map(TableIdentifier::name).sorted().toList());
    step("writer again", () -> scan(writer.loadTable(first)).size());
  }

  private static void drops(RESTCatalog catalog, Namespace namespace) {
    step("drop", () -> catalog.dropTable(TableIdentifier.of(namespace, "renamed"), false));
    step("drop purge", () -> {
      TableIdentifier name = TableIdentifier.of(namespace, "staged");
      Table table = catalog.loadTable(name);
      List<String> files = new ArrayList<>();
      try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
        tasks.forEach(task -> files.add(task.file().location()));
      }
      boolean dropped = catalog.dropTable(name, false);
      // As engines purge: they delete themselves, after the catalog has forgotten the table.
      files.forEach(table.io()::deleteFile);
      return dropped && files.stream().noneMatch(file -> table.io().newInputFile(file).exists());
    });
    step("drop first", () -> catalog.dropTable(TableIdentifier.of(namespace, "first"), false));
  }

  /** Works on one table for as long as it is told, and counts what failed. */
  private static void lasting(RESTCatalog catalog, TableIdentifier name, int seconds) {
    step("create", () -> catalog.createTable(name, SCHEMA, SPEC).schemas().size());
    step("lasting", () -> {
      FileIO io = catalog.loadTable(name).io();
      String root = catalog.loadTable(name).location() + "/data/";
      long end = System.nanoTime() + seconds * 1_000_000_000L;
      List<String> failures = new ArrayList<>();
      int done = 0;
      for (int number = 0; System.nanoTime() < end; number++) {
        try {
          content(io, root + number, "content");
          done += text(io, root + number).equals("content") ? 1 : 0;
        } catch (Exception error) {
          failures.add(error + ": " + error.getCause());
        }
        Thread.sleep(20);
      }
      ObjectNode told = JSON.createObjectNode().put("done", done);
      failures.forEach(told.putArray("failures")::add);
      return told;
    });
  }

  private static DataFile write(Table table, String city) throws Exception {
    PartitionData key = new PartitionData(city);
    String partition = SPEC.partitionToPath(key);
    String location = table.locationProvider().newDataLocation(partition + "/" + city.hashCode() + ".parquet");
    content(table.io(), location, city);
    return DataFiles.builder(SPEC).withPath(location).withFileSizeInBytes(city.getBytes(StandardCharsets.UTF_8).length)
        .withRecordCount(1).withPartition(key).build();
  }

  /** The value of the one partition field. */
  private record PartitionData(String city) implements StructLike {
    @Override
    public int size() {
      return 1;
    }

    @Override
    public <T> T get(int position, Class<T> type) {
      return type.cast(city);
    }

    @Override
    public <T> void set(int position, T value) {
      throw new UnsupportedOperationException();
    }
  }

  private static List<String> scan(Table table) throws Exception {
    List<String> found = new ArrayList<>();
    try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
      for (FileScanTask task : tasks) {
        found.add(text(table.io(), task.file().location()));
      }
    }
    found.sort(null);
    return found;
  }

  private static void content(FileIO io, String location, String text) throws Exception {
    try (PositionOutputStream stream = io.newOutputFile(location).createOrOverwrite()) {
      stream.write(text.getBytes(StandardCharsets.UTF_8));
    }
  }

  private static String text(FileIO io, String location) throws Exception {
    try (SeekableInputStream stream = io.newInputFile(location).newStream()) {
      return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private static void step(String name, Callable<Object> action) {
    ObjectNode outcome = OUTCOMES.putObject(name);
    try {
      outcome.set("value", JSON.valueToTree(action.call()));
    } catch (Exception error) {
      outcome.put("error", error.getClass().getSimpleName());
      outcome.put("message", String.valueOf(error.getMessage()));
    }
  }
}
