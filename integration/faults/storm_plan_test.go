package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestStormSchedule: a seed stands for one row of faults, so that a run can be repeated; no two of
// them have the same thing at once, since ending one would end the other; and every kind of a plan
// comes to happen.
func TestStormSchedule(t *testing.T) {
	for name, plan := range stormPlans() {
		t.Run(name, func(t *testing.T) {
			happened := map[string]bool{}
			for seed := range uint64(50) {
				faults := plan.schedule(rand.New(rand.NewPCG(seed, 0)))
				if again := plan.schedule(rand.New(rand.NewPCG(seed, 0))); fmt.Sprint(again) != fmt.Sprint(faults) {
					t.Fatalf("seed %d: another schedule the second time", seed)
				}
				busy := map[target]time.Duration{}
				for i, f := range faults {
					happened[f.name] = true
					if f.start < busy[f.target] || f.end < f.start || i > 0 && f.start < faults[i-1].start {
						t.Errorf("seed %d: %v while another lasts, or out of order", seed, f)
					}
					busy[f.target] = f.end
					for _, m := range f.idle {
						if (target{m, -1}) != f.target && busy[target{m, -1}] > f.start {
							t.Errorf("seed %d: %v takes master %d for idle", seed, f, m)
						}
					}
				}
			}
			for _, k := range plan.kinds {
				if !happened[k.name] {
					t.Errorf("%s never happens", k.name)
				}
			}
		})
	}
}

// TestStormSteady: in a soak the first proxy is never ended, or its growth could not be seen.
func TestStormSteady(t *testing.T) {
	for name, plan := range stormPlans() {
		ends := map[int]int{}
		plan.steady = true
		for seed := range uint64(50) {
			for _, f := range plan.schedule(rand.New(rand.NewPCG(seed, 0))) {
				if strings.Contains(f.name, "killed") && f.proxy >= 0 || strings.Contains(f.name, "told to end") {
					ends[f.proxy]++
				}
			}
		}
		if ends[0] > 0 || strings.HasSuffix(name, " masters") && ends[1] == 0 {
			t.Errorf("%s: proxies ended: %v", name, ends)
		}
	}
}
