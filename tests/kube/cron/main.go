// Evaluates schedules with the library that Kubernetes' CronJob controller uses, for `cargo xtask conformance cron`.
//
// Each line of standard input is a request, {"schedule", "zone", "after"}. Each line of standard output is its response:
// {"next": [five times, null when no time follows]} or {"error": text}. When the library does not return, the response is
// {"hangs": true} and the program ends; a caller with more requests starts it again.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/robfig/cron/v3"
)

// The number of times in a response.
const timesPerSchedule = 5

// A search through five years takes far less than this, even on a busy machine.
const timeout = 10 * time.Second

type request struct {
	Schedule string    `json:"schedule"`
	Zone     string    `json:"zone"`
	After    time.Time `json:"after"`
}

type response struct {
	Next  []*time.Time `json:"next,omitempty"`
	Error string       `json:"error,omitempty"`
	Hangs bool         `json:"hangs,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var req request
		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		zone, err := time.LoadLocation(req.Zone)
		if err != nil {
			return err
		}
		results := make(chan response, 1)
		go func() { results <- evaluate(req.Schedule, req.After.In(zone)) }()
		resp := response{Hangs: true}
		select {
		case resp = <-results:
		case <-time.After(timeout):
		}
		if err := out.Encode(resp); err != nil {
			return err
		}
		if resp.Hangs {
			return nil
		}
	}
	return lines.Err()
}

func evaluate(text string, at time.Time) (resp response) {
	// The API turns a panic of the parser into an error with this text.
	defer func() {
		if panicked := recover(); panicked != nil {
			resp = response{Error: fmt.Sprintf("invalid schedule format: %v", panicked)}
		}
	}()
	schedule, err := cron.ParseStandard(text)
	if err != nil {
		return response{Error: err.Error()}
	}
	for range timesPerSchedule {
		at = schedule.Next(at)
		if at.IsZero() {
			resp.Next = append(resp.Next, nil)
			break
		}
		utc := at.UTC()
		resp.Next = append(resp.Next, &utc)
	}
	return resp
}
