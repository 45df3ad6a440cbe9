// Package peers holds no Go program: run.py compares pipefs with other ways of
// storing and loading pictures, see README.md; a test runs its own checks.
package peers
