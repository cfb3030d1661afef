// Command tensorfusion-sdk writes the SDKs of a Pulumi package: its schema on standard input, a folder as the argument.
//
// The official language hosts do this for `pulumi package gen-sdk`, and are no ordinary Go modules. The generators are.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/blang/semver"
	gogen "github.com/pulumi/pulumi/pkg/v3/codegen/go"
	"github.com/pulumi/pulumi/pkg/v3/codegen/nodejs"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
)

const tool = "tensorfusion-sdk"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: tensorfusion-sdk FOLDER < schema.json")
	}
	var spec schema.PackageSpec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		return fmt.Errorf("standard input is no schema: %w", err)
	}
	for language, generate := range generators {
		// Bound anew for each: a generator leaves its own notes in the package.
		bound, diagnostics, err := schema.BindSpec(spec, noOtherPackages{}, schema.ValidationOptions{})
		if err != nil {
			return err
		}
		if diagnostics.HasErrors() {
			return diagnostics
		}
		files, err := generate(bound)
		if err != nil {
			return fmt.Errorf("%s: %w", language, err)
		}
		if err := write(filepath.Join(arguments[0], language), files); err != nil {
			return err
		}
	}
	return nil
}

var generators = map[string]func(*schema.Package) (map[string][]byte, error){
	"go": func(bound *schema.Package) (map[string][]byte, error) {
		return gogen.GeneratePackage(tool, bound, nil)
	},
	"nodejs": func(bound *schema.Package) (map[string][]byte, error) {
		return nodejs.GeneratePackage(tool, bound, nil, nil, false, noOtherPackages{})
	},
}

func write(folder string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// noOtherPackages is asked where a schema refers to the types of another package, which ours does not.
type noOtherPackages struct{ schema.ReferenceLoader }

func (noOtherPackages) LoadPackageReference(name string, _ *semver.Version) (schema.PackageReference, error) {
	return nil, fmt.Errorf("the schema refers to the package %s: only a schema that stands alone is read", name)
}

func (none noOtherPackages) LoadPackageReferenceV2(
	_ context.Context, descriptor *schema.PackageDescriptor,
) (schema.PackageReference, error) {
	return none.LoadPackageReference(descriptor.Name, nil)
}
