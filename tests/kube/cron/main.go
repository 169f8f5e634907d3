// Says what the library behind Kubernetes' CronJobs makes of schedules; `cargo xtask conformance cron` asks.
//
// Each line of standard input is a question, {"schedule", "zone", "after"}; each line of standard output is its answer:
// {"next": [five times, null once there is none]}, or {"error": text}. A question from which the library does not return
// is answered by {"hangs": true}, and ends the program: a caller that wants more asks a new one.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/robfig/cron/v3"
)

// How many times are told.
const times = 5

// A search through five years takes less than this by far, on a busy machine as well.
const patience = 10 * time.Second

type question struct {
	Schedule string    `json:"schedule"`
	Zone     string    `json:"zone"`
	After    time.Time `json:"after"`
}

type answer struct {
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
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		zone, err := time.LoadLocation(asked.Zone)
		if err != nil {
			return err
		}
		told := make(chan answer, 1)
		go func() { told <- ask(asked.Schedule, asked.After.In(zone)) }()
		said := answer{Hangs: true}
		select {
		case said = <-told:
		case <-time.After(patience):
		}
		if err := out.Encode(said); err != nil {
			return err
		}
		if said.Hangs {
			return nil
		}
	}
	return lines.Err()
}

func ask(text string, at time.Time) (said answer) {
	// The API turns a panic of the parser into an error of these words.
	defer func() {
		if panicked := recover(); panicked != nil {
			said = answer{Error: fmt.Sprintf("invalid schedule format: %v", panicked)}
		}
	}()
	schedule, err := cron.ParseStandard(text)
	if err != nil {
		return answer{Error: err.Error()}
	}
	for range times {
		at = schedule.Next(at)
		if at.IsZero() {
			said.Next = append(said.Next, nil)
			break
		}
		utc := at.UTC()
		said.Next = append(said.Next, &utc)
	}
	return said
}
