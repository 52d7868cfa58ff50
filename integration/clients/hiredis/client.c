/* hiredis' own ways of working, with lock commands among them: blocking calls, pipelines in one buffer, transactions,
 * subscriptions, half a megabyte of binary, reconnecting. Usage: client HOST PORT */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *host;
static int port;

#define CHECK(what, ...)                                                                                               \
	do {                                                                                                               \
		if (!(what)) {                                                                                                 \
			fprintf(stderr, "line %d: %s: ", __LINE__, #what);                                                         \
			fprintf(stderr, __VA_ARGS__);                                                                              \
			fprintf(stderr, "\n");                                                                                     \
			exit(1);                                                                                                   \
		}                                                                                                              \
	} while (0)

static redisContext *dial(void) {
	struct timeval patience = {20, 0};
	redisContext *c = redisConnectWithTimeout(host, port, patience);
	CHECK(c != NULL && !c->err, "%s", c ? c->errstr : "no memory");
	redisSetTimeout(c, patience);
	return c;
}

static redisReply *need(redisContext *c, redisReply *r, int type) {
	CHECK(r != NULL, "%s", c->errstr);
	CHECK(r->type == type, "type %d: %s", r->type, r->str ? r->str : "");
	return r;
}

static redisReply *next(redisContext *c, int type) {
	void *r = NULL;
	CHECK(redisGetReply(c, &r) == REDIS_OK, "%s", c->errstr);
	return need(c, r, type);
}

/* lock returns the token, which the caller frees, or NULL if the key is held. */
static char *lock(redisContext *c, const char *key, const char *options) {
	char line[200];
	snprintf(line, sizeof line, "LOCK %s 30s %s", key, options);
	redisReply *r = redisCommand(c, line);
	CHECK(r != NULL, "%s", c->errstr);
	CHECK(r->type == REDIS_REPLY_NIL || (r->type == REDIS_REPLY_STRING && r->len == 57), "type %d: %s", r->type, r->str);
	char *token = r->type == REDIS_REPLY_NIL ? NULL : strdup(r->str);
	freeReplyObject(r);
	return token;
}

static void unlock(redisContext *c, const char *key, char *token) {
	redisReply *r = need(c, redisCommand(c, "UNLOCK %s %s", key, token), REDIS_REPLY_INTEGER);
	CHECK(r->integer == 1, "%lld", r->integer);
	freeReplyObject(r);
	free(token);
}

static void single(void) {
	redisContext *c = dial();
	char *token = lock(c, "hi", "");
	CHECK(token != NULL && lock(c, "hi", "") == NULL, "held by two");
	unlock(c, "hi", token);
	freeReplyObject(need(c, redisCommand(c, "LOCK hi x"), REDIS_REPLY_ERROR));
	redisFree(c);
}

/* kinds takes every kind of lock: shared, limited, several keys at once, made shared, kept closed. */
static void kinds(void) {
	redisContext *c = dial();
	char *one = lock(c, "hi", "SHARED"), *two = lock(c, "hi", "SHARED");
	CHECK(one != NULL && two != NULL && lock(c, "hi", "") == NULL, "beside readers");
	unlock(c, "hi", one);
	unlock(c, "hi", two);
	one = lock(c, "hi", "LIMIT 2"), two = lock(c, "hi", "LIMIT 2");
	CHECK(one != NULL && two != NULL && lock(c, "hi", "LIMIT 2") == NULL, "three of two");
	unlock(c, "hi", one);
	unlock(c, "hi", two);
	one = lock(c, "hi", "KEYS 1 hi:other");
	CHECK(one != NULL && lock(c, "hi:other", "") == NULL, "one of both");
	redisReply *r = need(c, redisCommand(c, "UNLOCK hi %s KEYS 1 hi:other", one), REDIS_REPLY_INTEGER);
	CHECK(r->integer == 1, "%lld", r->integer);
	freeReplyObject(r);
	free(one);
	one = lock(c, "hi", "");
	r = need(c, redisCommand(c, "EXTEND hi %s 30s SHARED", one), REDIS_REPLY_INTEGER);
	CHECK(r->integer == 1, "%lld", r->integer);
	freeReplyObject(r);
	r = need(c, redisCommand(c, "UNLOCK hi %s KEEP 300ms", one), REDIS_REPLY_INTEGER);
	CHECK(r->integer == 1, "%lld", r->integer);
	freeReplyObject(r);
	free(one);
	unlock(c, "hi", lock(c, "hi", "WAIT 20s"));
	redisFree(c);
}

static void pipeline(void) {
	redisContext *c = dial();
	char key[32], *tokens[100];
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof key, "hi:%d", i);
		redisAppendCommand(c, "SET %s %d", key, i);
		redisAppendCommand(c, "LOCK %s 30s", key);
		redisAppendCommand(c, "GET %s", key);
	}
	for (int i = 0; i < 100; i++) {
		freeReplyObject(next(c, REDIS_REPLY_STATUS));
		redisReply *r = next(c, REDIS_REPLY_STRING);
		CHECK(r->len == 57, "%s", r->str);
		tokens[i] = strdup(r->str);
		freeReplyObject(r);
		r = next(c, REDIS_REPLY_STRING);
		CHECK(atoi(r->str) == i, "%s", r->str);
		freeReplyObject(r);
	}
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof key, "hi:%d", i);
		unlock(c, key, tokens[i]);
	}
	redisFree(c);
}

static void transaction(void) {
	redisContext *c = dial();
	freeReplyObject(need(c, redisCommand(c, "MULTI"), REDIS_REPLY_STATUS));
	freeReplyObject(need(c, redisCommand(c, "INCR tx"), REDIS_REPLY_STATUS));
	redisReply *r = need(c, redisCommand(c, "EXEC"), REDIS_REPLY_ARRAY);
	CHECK(r->elements == 1 && r->element[0]->integer == 1, "%zu elements", r->elements);
	freeReplyObject(r);
	redisAppendCommand(c, "MULTI");
	redisAppendCommand(c, "INCR tx");
	redisAppendCommand(c, "LOCK tx 30s");
	redisAppendCommand(c, "EXEC");
	redisAppendCommand(c, "GET tx");
	freeReplyObject(next(c, REDIS_REPLY_STATUS));
	freeReplyObject(next(c, REDIS_REPLY_STATUS));
	freeReplyObject(next(c, REDIS_REPLY_ERROR));
	freeReplyObject(next(c, REDIS_REPLY_ERROR));
	r = next(c, REDIS_REPLY_STRING);
	CHECK(strcmp(r->str, "1") == 0, "%s", r->str);
	freeReplyObject(r);
	redisFree(c);
}

static void subscription(void) {
	redisContext *c = dial(), *sub = dial();
	freeReplyObject(need(sub, redisCommand(sub, "SUBSCRIBE news"), REDIS_REPLY_ARRAY));
	for (int i = 0; i < 50; i++) {
		char *token = lock(c, "news", "");
		freeReplyObject(need(c, redisCommand(c, "PUBLISH news %s", token), REDIS_REPLY_INTEGER));
		redisReply *r = next(sub, REDIS_REPLY_ARRAY);
		CHECK(r->elements == 3 && strcmp(r->element[2]->str, token) == 0, "%s", r->element[2]->str);
		freeReplyObject(r);
		unlock(c, "news", token);
	}
	freeReplyObject(need(sub, redisCommand(sub, "LOCK news 30s"), REDIS_REPLY_ERROR));
	freeReplyObject(need(sub, redisCommand(sub, "UNSUBSCRIBE news"), REDIS_REPLY_ARRAY));
	unlock(sub, "news", lock(sub, "news", ""));
	redisFree(c);
	redisFree(sub);
}

static void binary(void) {
	redisContext *c = dial();
	size_t size = 512 * 1024;
	char *value = malloc(size);
	for (size_t i = 0; i < size; i++)
		value[i] = (char)(i * 31);
	redisAppendCommand(c, "SET %b %b", "\r\n\0x", (size_t)4, value, size);
	redisAppendCommand(c, "LOCK %b 30s", "\r\n\0x", (size_t)4);
	redisAppendCommand(c, "GET %b", "\r\n\0x", (size_t)4);
	freeReplyObject(next(c, REDIS_REPLY_STATUS));
	redisReply *token = next(c, REDIS_REPLY_STRING);
	redisReply *r = next(c, REDIS_REPLY_STRING);
	CHECK(r->len == (int)size && memcmp(r->str, value, size) == 0, "the value came back changed");
	freeReplyObject(r);
	r = need(c, redisCommand(c, "UNLOCK %b %s", "\r\n\0x", (size_t)4, token->str), REDIS_REPLY_INTEGER);
	CHECK(r->integer == 1, "%lld", r->integer);
	freeReplyObject(r);
	freeReplyObject(token);
	free(value);
	redisFree(c);
}

static void reconnect(void) {
	redisContext *c = dial(), *killer = dial();
	for (int i = 0; i < 5; i++) {
		char *token = lock(c, "again", "");
		redisReply *id = need(c, redisCommand(c, "CLIENT ID"), REDIS_REPLY_INTEGER);
		freeReplyObject(need(killer, redisCommand(killer, "CLIENT KILL ID %lld", id->integer), REDIS_REPLY_INTEGER));
		freeReplyObject(id);
		void *r = NULL;
		CHECK(redisGetReply(c, &r) == REDIS_ERR, "a killed connection lives on");
		CHECK(redisReconnect(c) == REDIS_OK, "%s", c->errstr);
		unlock(c, "again", token);
	}
	redisFree(c);
	redisFree(killer);
}

int main(int argc, char **argv) {
	CHECK(argc == 3, "usage: client HOST PORT");
	host = argv[1];
	port = atoi(argv[2]);
	single();
	kinds();
	pipeline();
	transaction();
	subscription();
	binary();
	reconnect();
	printf("hiredis %d.%d.%d all ok\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
	return 0;
}
