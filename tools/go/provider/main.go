// Command provider is pulumi-resource-kubernetes without the embedded schema, which only SDK generation reads.
package main

import "github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"

// version is set by the build (-X main.version), so that it is written once, in tools.toml.
var version = "0.0.0"

func main() {
	provider.Serve("kubernetes", version, []byte("{}"), []byte("{}"))
}
