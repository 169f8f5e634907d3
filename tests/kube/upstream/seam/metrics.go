package seam

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"
)

// counterSums adds the counters of all processes of a test. The counters of a process are read once more before SIGKILL.
type counterSums struct {
	lock sync.Mutex
	// Sums over ended processes, by series.
	ended map[string]float64
	// The running process.
	running *Process
	// Sums when the test last reset the metrics.
	baseline map[string]float64
}

var counters = &counterSums{ended: map[string]float64{}, baseline: map[string]float64{}}

func (c *counterSums) begin(process *Process) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.running = process
}

func (c *counterSums) end(process *Process) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.running != process {
		return
	}
	series, err := scrape(process)
	if err != nil {
		process.tb.Errorf("read metrics before kill: %v", err)
	}
	for name, value := range series {
		c.ended[name] += value
	}
	c.running = nil
}

func (c *counterSums) total() (map[string]float64, error) {
	sums := map[string]float64{}
	for name, value := range c.ended {
		sums[name] = value
	}
	if c.running != nil {
		series, err := scrape(c.running)
		if err != nil {
			return nil, err
		}
		for name, value := range series {
			sums[name] += value
		}
	}
	return sums, nil
}

// ResetMetrics makes the current sums the baseline of CounterValue.
func ResetMetrics() {
	counters.lock.Lock()
	defer counters.lock.Unlock()
	sums, err := counters.total()
	if err != nil {
		sums = map[string]float64{}
	}
	counters.baseline = sums
}

// CounterValue is the increase since ResetMetrics of our counter with this name and these labels.
func CounterValue(name string, metric any) (float64, error) {
	labels, written := &dto.Metric{}, metric.(interface{ Write(*dto.Metric) error })
	if err := written.Write(labels); err != nil {
		return 0, err
	}
	wanted := map[string]string{}
	for _, label := range labels.Label {
		wanted[label.GetName()] = label.GetValue()
	}
	counters.lock.Lock()
	defer counters.lock.Unlock()
	sums, err := counters.total()
	if err != nil {
		return 0, err
	}
	key := series(name, wanted)
	return sums[key] - counters.baseline[key], nil
}

// series is one name for a counter and its labels, in any order.
func series(name string, labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for label, value := range labels {
		pairs = append(pairs, label+"="+strconv.Quote(value))
	}
	sort.Strings(pairs)
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// scrape reads the counters of a process: lines `name{label="value",…} number`.
func scrape(process *Process) (map[string]float64, error) {
	status, body, err := get(process.Metrics + "/metrics")
	if err != nil {
		return nil, err
	}
	if status != 200 {
		return nil, fmt.Errorf("/metrics answers %d", status)
	}
	sums := map[string]float64{}
	for _, line := range strings.Split(string(body), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, labels, value, ok := parseSample(line)
		if ok {
			sums[series(name, labels)] = value
		}
	}
	return sums, nil
}

func parseSample(line string) (name string, labels map[string]string, value float64, ok bool) {
	at := strings.LastIndexByte(line, ' ')
	if at < 0 {
		return "", nil, 0, false
	}
	value, err := strconv.ParseFloat(line[at+1:], 64)
	if err != nil {
		return "", nil, 0, false
	}
	name, rest, found := strings.Cut(line[:at], "{")
	labels = map[string]string{}
	if !found {
		return name, labels, value, true
	}
	for rest = strings.TrimSuffix(rest, "}"); rest != ""; rest = strings.TrimPrefix(rest, ",") {
		label, after, found := strings.Cut(rest, "=")
		if !found {
			return "", nil, 0, false
		}
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			return "", nil, 0, false
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			return "", nil, 0, false
		}
		labels[label], rest = text, after[len(quoted):]
	}
	return name, labels, value, true
}
