// Reads a table with iceberg-rust as a catalog's configuration has it; the properties and names come on standard input.
use std::{collections::HashMap, error::Error, io, sync::Arc};

use futures::TryStreamExt;
use iceberg::{Catalog, CatalogBuilder, NamespaceIdent, TableIdent};
use iceberg_catalog_rest::RestCatalogBuilder;
use iceberg_storage_opendal::OpenDalStorageFactory;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let asked: serde_json::Value = serde_json::from_reader(io::stdin())?;
    let properties: HashMap<String, String> = serde_json::from_value(asked["properties"].clone())?;
    let named = |key: &str| asked[key].as_str().unwrap_or_default().to_string();
    let storage = OpenDalStorageFactory::S3 { customized_credential_load: None };
    let lake = RestCatalogBuilder::default().with_storage_factory(Arc::new(storage)).load("lake", properties).await?;
    let table = lake.load_table(&TableIdent::new(NamespaceIdent::new(named("namespace")), named("table"))).await?;
    let batches: Vec<_> = table.scan().select_all().build()?.to_arrow().await?.try_collect().await?;
    println!("{}", batches.iter().map(|batch| batch.num_rows()).sum::<usize>());
    Ok(())
}
