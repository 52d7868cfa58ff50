package integration

// What the tests of waiting, sessions and operators' commands share.
