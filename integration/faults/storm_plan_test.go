package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestStormScheduleIsSound: a seed gives the same schedule each time, so that a run can be
// repeated. No two faults strike one target at the same time, because the end of one would end the
// other. Every kind of fault in a plan happens.
func TestStormScheduleIsSound(t *testing.T) {
	for name, plan := range stormPlans() {
		t.Run(name, func(t *testing.T) {
			happened := map[string]bool{}
			for seed := range uint64(50) {
				faults := plan.schedule(rand.New(rand.NewPCG(seed, 0)))
				if again := plan.schedule(rand.New(rand.NewPCG(seed, 0))); fmt.Sprint(again) != fmt.Sprint(faults) {
					t.Fatalf("seed %d: got another schedule the second time, want the same", seed)
				}
				wantOneFaultATarget(t, seed, faults)
				for _, f := range faults {
					happened[f.name] = true
				}
			}
			for _, k := range plan.kinds {
				if !happened[k.name] {
					t.Errorf("faults of kind %q: got none, want some", k.name)
				}
			}
		})
	}
}

// wantOneFaultATarget fails if two faults strike one target at the same time, if a fault takes a
// struck master for idle, or if the faults are out of order.
func wantOneFaultATarget(t *testing.T, seed uint64, faults []fault) {
	t.Helper()
	busy := map[target]time.Duration{}
	for i, f := range faults {
		if f.start < busy[f.target] || f.end < f.start || i > 0 && f.start < faults[i-1].start {
			t.Errorf("seed %d: got %v during another fault or out of order", seed, f)
		}
		busy[f.target] = f.end
		for _, m := range f.idle {
			if (target{m, -1}) != f.target && busy[target{m, -1}] > f.start {
				t.Errorf("seed %d: %v: got master %d as idle during another fault", seed, f, m)
			}
		}
	}
}

// TestSteadyStormKeepsFirstProxy: in a soak no fault ends the first proxy, so that its growth
// shows.
func TestSteadyStormKeepsFirstProxy(t *testing.T) {
	for name, plan := range stormPlans() {
		t.Run(name, func(t *testing.T) {
			ends := map[int]int{} // by proxy
			plan.steady = true
			for seed := range uint64(50) {
				for _, f := range plan.schedule(rand.New(rand.NewPCG(seed, 0))) {
					if strings.Contains(f.name, "killed") && f.proxy >= 0 || strings.Contains(f.name, "proxy drained") {
						ends[f.proxy]++
					}
				}
			}
			if ends[0] > 0 || strings.HasSuffix(name, " masters") && ends[1] == 0 {
				t.Errorf("faults that end a proxy: got %v, want none of proxy 0, and some of others", ends)
			}
		})
	}
}
