package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestEmbeddedInfoHasTheGuardsFields: INFO, asked by sections like lanes do, has all fields that
// decide whether a master may vote, and says that no data outlives a restart.
func TestEmbeddedInfoHasTheGuardsFields(t *testing.T) {
	m, _ := newTestServer(t)
	client := redis.NewClient(&redis.Options{Dialer: m.Dial, Protocol: 2, MaxRetries: -1})
	defer client.Close()
	all := client.Info(t.Context()).Val()
	for section, lines := range map[string][]string{
		"server":      {"run_id:" + m.runID, "redis_version:" + miniredisVersion, "redis_mode:standalone"},
		"replication": {"role:master", "connected_slaves:0"},
		"memory":      {"maxmemory:0", "maxmemory_policy:noeviction"},
		"stats":       {"evicted_keys:0"},
		"persistence": {"loading:0", "aof_enabled:0", "aof_rewrite_in_progress:0", "aof_last_write_status:ok"},
	} {
		t.Run(section, func(t *testing.T) {
			info := client.Info(t.Context(), section).Val()
			if strings.Count(info, "# ") != 1 {
				t.Errorf("INFO %s has other sections, too:\n%s", section, info)
			}
			for _, want := range lines {
				if strings.Count("\r\n"+info, "\r\n"+want+"\r\n") != 1 || strings.Count("\r\n"+all, "\r\n"+want+"\r\n") != 1 {
					t.Errorf("INFO %s lacks %s:\n%s", section, want, info)
				}
			}
		})
	}
	config, err := client.ConfigGet(t.Context(), "*append*").Result()
	if err != nil || config["appendonly"] != "no" || config["no-appendfsync-on-rewrite"] != "no" {
		t.Errorf("CONFIG GET: %v %v", config, err)
	}
}

// guardLua combines the commands of the guard's scripts in one script.
const guardLua = `
if redis.call('HGET', KEYS[1], 'record') ~= ARGV[1] and ARGV[1] ~= '' then
  return redis.error_reply('NOTADMITTED the record has changed')
end
local now = redis.call('TIME')
local before = redis.call('HLEN', KEYS[1])
for field, number in string.gmatch(ARGV[2], '(%d+) (%d+)') do
  redis.call('HSET', KEYS[1], field, string.format('%.0f', tonumber(number)))
end
redis.call('HSET', KEYS[1], 'record', ARGV[3])
redis.call('HDEL', KEYS[1], 'born')
local all, said = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  if string.find(all[i], '^%d+$') then
    said[#said + 1] = all[i] .. '=' .. all[i + 1]
  end
end
table.sort(said)
return {before, tonumber(now[1]), now[2], redis.call('HGET', KEYS[1], 'born') or 'none', table.concat(said, ' ')}`

// TestEmbeddedRunsTheGuardsScripts: through the embedded server's own reader and pre-hook.
func TestEmbeddedRunsTheGuardsScripts(t *testing.T) {
	m, logs := newTestServer(t)
	client := redis.NewClient(&redis.Options{Dialer: m.Dial, Protocol: 2, MaxRetries: -1})
	defer client.Close()
	ctx, key := t.Context(), []string{"lockproxy:state:lock:"}
	for i, want := range []string{
		`^\[0 \d{10} \d+ none 7=3671294823219200 8=5\]$`, `^\[3 \d{10} \d+ none 7=3671294823219200 8=6\]$`,
	} {
		r, err := client.Eval(ctx, guardLua, key, []string{"", "A run print nonce"}[i],
			[]string{"7 3671294823219200 8 5", "8 6"}[i], "A run print nonce").Result()
		if got := fmt.Sprint(r); err != nil || !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("got %s %v, want %s", got, err, want)
		}
	}
	if err := client.Eval(ctx, guardLua, key, "A other print nonce", "", "").Err(); err == nil ||
		err.Error() != "NOTADMITTED the record has changed" {
		t.Errorf("another record: %v", err)
	}
	files, err := filepath.Glob("../../../quorum/internal/wire/*.lua")
	if err != nil || len(files) < 4 {
		t.Fatalf("scripts of package wire: %v %v", files, err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if sha, err := client.ScriptLoad(ctx, string(body)).Result(); err != nil || len(sha) != 40 {
			t.Errorf("%s: %q %v", file, sha, err)
		}
	}
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
}
