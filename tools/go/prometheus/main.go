// Command promql asks Prometheus' own engine: it loads series and evaluates queries on them. The tests of dashboards and alerts
// use it. One JSON request comes on standard input, one JSON answer goes to standard output.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// request: Load is in the notation of Prometheus' tests, `load 1m` and a line for each series; an empty one loads nothing.
type request struct {
	Load    string
	Queries []query
}

type query struct {
	Expr string
	AtS  float64
}

type sample struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
}

// answer: the metrics that the query names, with the labels that it selects or groups by, and the vector that it gives.
type answer struct {
	Error   string              `json:"error,omitempty"`
	Metrics map[string][]string `json:"metrics"`
	Groups  []string            `json:"groups"`
	Samples []sample            `json:"samples"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	loader, err := promqltest.NewLazyLoader(asked.Load, promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		return err
	}
	defer loader.Close()
	answers := make([]answer, len(asked.Queries))
	for i, one := range asked.Queries {
		answers[i] = ask(loader, one)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func ask(loader *promqltest.LazyLoader, asked query) (found answer) {
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(asked.Expr)
	if err != nil {
		found.Error = err.Error()
		return found
	}
	found.Metrics, found.Groups = read(expression)
	at := time.Unix(0, 0).Add(time.Duration(asked.AtS * float64(time.Second)))
	loader.WithSamplesTill(at, func(err error) {
		if err == nil {
			found.Samples, err = evaluate(loader, asked.Expr, at)
		}
		if err != nil {
			found.Error = err.Error()
		}
	})
	return found
}

func read(expression parser.Expr) (map[string][]string, []string) {
	metrics, groups := map[string][]string{}, []string{}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		switch part := node.(type) {
		case *parser.VectorSelector:
			for _, matcher := range part.LabelMatchers {
				if matcher.Name != labels.MetricName {
					metrics[part.Name] = append(metrics[part.Name], matcher.Name)
				}
			}
			metrics[part.Name] = append([]string{}, metrics[part.Name]...)
		case *parser.AggregateExpr:
			groups = append(groups, part.Grouping...)
		case *parser.BinaryExpr:
			if part.VectorMatching != nil {
				groups = append(append(groups, part.VectorMatching.MatchingLabels...), part.VectorMatching.Include...)
			}
		}
		return nil
	})
	return metrics, groups
}

func evaluate(loader *promqltest.LazyLoader, expression string, at time.Time) ([]sample, error) {
	asked, err := loader.QueryEngine().NewInstantQuery(loader.Context(), loader.Queryable(), nil, expression, at)
	if err != nil {
		return nil, err
	}
	defer asked.Close()
	result := asked.Exec(loader.Context())
	if result.Err != nil {
		return nil, result.Err
	}
	if scalar, err := result.Scalar(); err == nil {
		return []sample{{Labels: map[string]string{}, Value: scalar.V}}, nil
	}
	vector, err := result.Vector()
	if err != nil {
		return nil, err
	}
	return samples(vector), nil
}

func samples(vector promql.Vector) []sample {
	found := []sample{}
	for _, one := range vector {
		found = append(found, sample{Labels: one.Metric.Map(), Value: one.F})
	}
	return found
}
