package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pipefs/pipefs/bench/research/chart"
	"github.com/pipefs/pipefs/bench/views"
)

// report writes the table and the chart.
func (s *settings) report(sets []set, results map[string]trained) error {
	var text bytes.Buffer
	var lines []chart.Series
	var about trained
	fmt.Fprintf(&text, "Loss of training with %s: mean of %d seeds (lowest – highest).\n\n| epoch |", cmp.Or(s.recipe, "crops"), s.seeds)
	for _, set := range sets {
		for _, way := range ways {
			fmt.Fprintf(&text, " %s, %s |", set.name, way.name)
			line := chart.Series{Name: set.name + ", " + way.name}
			for epoch := range s.epochs {
				values := s.of(results, set, way.arg, func(t trained) float64 { return t.Loss[epoch] })
				line.X, line.Y = append(line.X, float64(epoch+1)), append(line.Y, mean(values))
				line.Low, line.High = append(line.Low, slices.Min(values)), append(line.High, slices.Max(values))
			}
			lines = append(lines, line)
			about = results[s.key(set, way.arg, 0)]
		}
	}
	text.WriteString("\n|---|" + string(bytes.Repeat([]byte("---|"), len(lines))) + "\n")
	for epoch := range s.epochs {
		if n := epoch + 1; n != 1 && n != s.epochs && n%max(1, s.epochs/8) != 0 {
			continue
		}
		fmt.Fprintf(&text, "| %d |", epoch+1)
		for _, line := range lines {
			fmt.Fprintf(&text, " %.3f (%.3f – %.3f) |", line.Y[epoch], line.Low[epoch], line.High[epoch])
		}
		text.WriteByte('\n')
	}
	for _, set := range sets {
		fmt.Fprintf(&text, "\n- %s: %s.", set.name, set.text)
		last := [2][]float64{}
		for i, way := range ways {
			last[i] = s.of(results, set, way.arg, func(t trained) float64 { return t.Loss[s.epochs-1] })
		}
		fmt.Fprintf(&text, " Loss of the last epoch, epoch views less ImageFolder, median of the seeds with its interval of 95 %%: %s.", difference(last[1], last[0]))
		if set.test == "" {
			continue
		}
		for i, way := range ways {
			last[i] = s.of(results, set, way.arg, func(t trained) float64 { return t.Accuracy })
			fmt.Fprintf(&text, " Accuracy on the test pictures through %s: %.3f (%.3f – %.3f).", way.name, mean(last[i]), slices.Min(last[i]), slices.Max(last[i]))
		}
		fmt.Fprintf(&text, " Difference: %s.", difference(last[1], last[0]))
	}
	fmt.Fprintf(&text, "\n- PyTorch %s, torchvision %s, on one thread of the processor.\n", about.Torch, about.Torchvision)
	figure := chart.Curves(fmt.Sprintf("Loss of training, mean and range of %d seeds", s.seeds), "epoch", "loss", lines...)
	if err := figure.Save(filepath.Join(s.Out, "curves.svg")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.Out, "curves.md"), text.Bytes(), 0o644); err != nil {
		return err
	}
	_, err := os.Stdout.Write(text.Bytes())
	return err
}

// of is a value of each training.
func (s *settings) of(results map[string]trained, set set, way string, value func(trained) float64) (values []float64) {
	for seed := range s.seeds {
		values = append(values, value(results[s.key(set, way, seed)]))
	}
	return values
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// difference of trainings with the same seed, which begin with the same weights: the median, and the
// interval in which it lies with 95 %.
func difference(a, b []float64) string {
	each := make([]float64, len(a))
	for i := range each {
		each[i] = a[i] - b[i]
	}
	d := views.Bootstrap(each)
	return fmt.Sprintf("%+.3f (%+.3f to %+.3f)", d.Median, d.Low, d.High)
}
