"""Count a table's rows: the token of the driver's service account is all that the job ever shows."""

from pathlib import Path

from pyspark.sql import SparkSession

TOKEN = Path("/var/run/secrets/tokens/signproxy/token")

spark = SparkSession.builder.config("spark.sql.catalog.lake.token", TOKEN.read_text().strip()).getOrCreate()
spark.sql("SELECT count(*) FROM lake.sales.orders").show()
spark.stop()
