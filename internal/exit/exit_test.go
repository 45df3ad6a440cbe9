package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Code
	}{
		{nil, OK},
		{errors.New("x"), System},
		{Errorf(Mount, "x"), Mount},
		{fmt.Errorf("more: %w", Errorf(Usage, "x")), Usage},
		{fmt.Errorf("read: %w", context.Canceled), Interrupted},
		{fmt.Errorf("open: %w", fs.ErrPermission), Usage},
		{With(Internal, errors.New("x")), Internal},
		{With(Internal, Errorf(Mount, "x")), Mount}, // the first code stands
		{With(Internal, nil), OK},
	} {
		if got := Of(c.err); got != c.want {
			t.Errorf("Of(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestTextIsTheCause(t *testing.T) {
	cause := errors.New("disk on fire")
	err := With(System, cause)
	if err.Error() != "disk on fire" || !errors.Is(err, cause) {
		t.Errorf("got %q", err)
	}
}
