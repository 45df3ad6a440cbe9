// Package peers holds no Go program: run.py compares pipefs with other ways of storing
// and loading pictures, see README.md. The test runs the checks of run.py.
package peers
