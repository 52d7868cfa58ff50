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
	for name, bad := range map[string]string{
		"empty": "", "only a colon": ":", "too short": good[1:], "too long": good + "0",
		"leading blank":       " " + good[1:],
		"letter in the fence": "000000000000004x:" + secret, "negative fence": "-000000000000042:" + secret,
		"signed fence": "+000000000000042:" + secret, "no colon": "0000000000000042-" + secret,
		"upper case":   "0000000000000042:" + strings.ToUpper(secret),
		"no hex digit": "0000000000000042:" + secret[1:] + "g",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseToken([]byte(bad)); err == nil {
				t.Error("accepted")
			} else if strings.Contains(err.Error(), secret) {
				t.Errorf("the error quotes the token: %v", err)
			}
		})
	}
}
