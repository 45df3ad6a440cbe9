package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// S3Server is an object storage with one bucket: versitygw, on a directory of the test.
type S3Server struct {
	Endpoint  string // http://127.0.0.1:PORT
	Region    string
	AccessKey string
	SecretKey string
	Bucket    string
	// Dir holds the bucket: an object is a file in it, of the name of its key. A file that is
	// written here past the server has no ETag, and is no object.
	Dir string

	program string
	running *exec.Cmd
	ended   chan struct{} // closed when it has
}

// S3 starts a server that ends with the test.
func S3(t testing.TB) *S3Server {
	t.Helper()
	Slow(t)
	s := &S3Server{
		Region: "us-east-1", AccessKey: "pipefs-test", SecretKey: "not+a/secret=of+anybody",
		Bucket: "test-bucket", program: filepath.Join(top(t), "bin/tools/versitygw"),
	}
	if _, err := os.Stat(s.program); err != nil {
		t.Fatalf("this test needs an object storage; install it with: make bin/tools/versitygw (%v)", err)
	}
	root := t.TempDir()
	s.Dir = filepath.Join(root, s.Bucket)
	Must(t, os.Mkdir(s.Dir, 0o755))
	// Below the ports from which the system takes those of clients: nobody has it by chance
	// while the server is stopped.
	for try := range 20 {
		s.Endpoint = fmt.Sprintf("http://127.0.0.1:%d", 20000+rand.IntN(12000))
		err := s.start(root)
		if err == nil {
			break
		}
		if try == 19 {
			t.Fatal(err)
		}
	}
	t.Cleanup(s.Stop)
	return s
}

// Env is what a program needs in its environment to reach the server, beside s3://BUCKET.
func (s *S3Server) Env() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey, "AWS_SESSION_TOKEN=",
		"AWS_REGION=" + s.Region, "AWS_ENDPOINT_URL=" + s.Endpoint, "AWS_EC2_METADATA_DISABLED=true",
	}
}

// Stop kills the server. Requests in flight break off.
func (s *S3Server) Stop() {
	if s.running != nil {
		_ = s.running.Process.Kill()
		<-s.ended
		s.running = nil
	}
}

// Start starts a server that was stopped, at the same address.
func (s *S3Server) Start(t testing.TB) {
	t.Helper()
	Must(t, s.start(filepath.Dir(s.Dir)))
}

func (s *S3Server) start(root string) error {
	var log bytes.Buffer
	cmd := exec.Command(s.program,
		"--access", s.AccessKey, "--secret", s.SecretKey, "--region", s.Region,
		"--port", strings.TrimPrefix(s.Endpoint, "http://"), "--keep-alive", "--quiet", "posix", root)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // when the tests are killed
	if err := cmd.Start(); err != nil {
		return err
	}
	s.running, s.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(s.ended)
	}()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-s.ended:
			s.running = nil
			return fmt.Errorf("versitygw at %s: %s", s.Endpoint, log.Bytes())
		case <-time.After(10 * time.Millisecond):
		}
		// Nobody signed the request, so the answer is an error; but it is one.
		answer, err := client.Get(s.Endpoint + "/")
		if err == nil {
			_ = answer.Body.Close()
			return nil
		}
	}
	s.Stop()
	return errors.New("versitygw does not answer at " + s.Endpoint)
}
