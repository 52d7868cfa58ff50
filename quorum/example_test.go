package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockproxy/quorum"
	"lockproxy/quorum/internal/fake"
)

// masters returns a quorum over five masters, which live in memory. Real ones have a Network and
// an Addr instead of Dial.
func masters() *quorum.Quorum {
	o := quorum.Options{KeyPrefix: "lock:", MasterTimeout: time.Second, MaxTTL: time.Minute, Fencing: true}
	for i := range 5 {
		name := fmt.Sprintf("master %d", i+1)
		o.Masters = append(o.Masters, quorum.MasterOptions{Name: name, Addr: name,
			Dial: fake.New(fmt.Sprintf("%040d", i)).Dial})
	}
	q, err := quorum.New(o)
	if err != nil {
		panic(err)
	}
	return q
}

func Example() {
	ctx := context.Background()
	q := masters()
	defer q.Close(ctx)
	if err := q.WaitReady(ctx); err != nil {
		fmt.Println(err)
		return
	}

	lease, err := q.Acquire(ctx, quorum.Request{Key: "job", TTL: 10 * time.Second, Owner: "me"})
	fmt.Println("granted:", err == nil, "for more than 9s:", lease.Validity > 9*time.Second)

	_, err = q.Acquire(ctx, quorum.Request{Key: "job", TTL: 10 * time.Second})
	fmt.Println("held by another:", errors.Is(err, quorum.ErrHeld))

	held, err := q.Release(ctx, []string{"job"}, lease.Token, 0)
	fmt.Println("released:", held, err)
	// Output:
	// granted: true for more than 9s: true
	// held by another: true
	// released: true <nil>
}

// A holder passes the fence to the resource, which refuses one that is lower than the last it saw.
func ExampleQuorum_Acquire_fence() {
	ctx := context.Background()
	q := masters()
	defer q.Close(ctx)
	_ = q.WaitReady(ctx)

	var last uint64
	for range 3 {
		lease, err := q.Acquire(ctx, quorum.Request{Key: "job", TTL: 10 * time.Second})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("higher than the last:", lease.Token.Fence > last)
		last = lease.Token.Fence
		_, _ = q.Release(ctx, []string{"job"}, lease.Token, 0)
	}
	// Output:
	// higher than the last: true
	// higher than the last: true
	// higher than the last: true
}

func ExampleQuorum_Extend() {
	ctx := context.Background()
	q := masters()
	defer q.Close(ctx)
	_ = q.WaitReady(ctx)

	lease, _ := q.Acquire(ctx, quorum.Request{Key: "job", TTL: time.Second})
	validity, err := q.Extend(ctx, []string{"job"}, lease.Token, 30*time.Second, false)
	fmt.Println("more than 29s left:", validity > 29*time.Second, err)

	_, _ = q.Release(ctx, []string{"job"}, lease.Token, 0)
	_, err = q.Extend(ctx, []string{"job"}, lease.Token, 30*time.Second, false)
	fmt.Println("lost:", errors.Is(err, quorum.ErrLost))
	// Output:
	// more than 29s left: true <nil>
	// lost: true
}
