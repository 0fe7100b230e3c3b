// Reads a table with iceberg-go as a catalog's configuration has it; the properties and names come on standard input.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	_ "github.com/apache/iceberg-go/catalog/rest"
	_ "github.com/apache/iceberg-go/io/gocloud"
)

func main() {
	var asked struct {
		Properties map[string]string `json:"properties"`
		Namespace  string            `json:"namespace"`
		Table      string            `json:"table"`
	}
	must(json.NewDecoder(os.Stdin).Decode(&asked))
	ctx := context.Background()
	lake, err := catalog.Load(ctx, "lake", iceberg.Properties(asked.Properties))
	must(err)
	table, err := lake.LoadTable(ctx, []string{asked.Namespace, asked.Table})
	must(err)
	found, err := table.Scan().ToArrowTable(ctx)
	must(err)
	defer found.Release()
	fmt.Println(found.NumRows())
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
