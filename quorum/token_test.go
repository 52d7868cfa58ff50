package quorum

import (
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	secret := strings.Repeat("0123456789abcdef", 3)[:40]
	good := "0000000000000042:" + secret
	token, err := ParseToken([]byte(good))
	if err != nil || token.Fence != 42 || token.Secret != secret || token.String() != good {
		t.Errorf("ParseToken(%q) = %+v, %v", good, token, err)
	}
	for _, bad := range []string{
		"", ":", good[1:], good + "0", "000000000000004x:" + secret, "-000000000000042:" + secret, "+000000000000042:" + secret,
		"0000000000000042-" + secret, "0000000000000042:" + strings.ToUpper(secret), "0000000000000042:" + secret[1:] + "g", " " + good[1:],
	} {
		if _, err := ParseToken([]byte(bad)); err == nil {
			t.Errorf("ParseToken(%q) accepted it", bad)
		} else if bad != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("the error quotes the token: %v", err)
		}
	}
}
