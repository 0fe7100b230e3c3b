// Be a store that takes uploads as fast as they come: read a PUT to its end, keep nothing, answer 200.
// Arguments: port, file for the head of the newest upload to a name with "checked" in it.
//
// The kernel throws bodies away before they are copied (MSG_TRUNC), so that the store takes little of the core that it
// shares with the load. Names decide otherwise: the body of a "checked" one is read, and its Adler-32 is the ETag; the
// body of a "stalled" one is never read. One thread, HTTP/1.1, bodies with a Content-Length only.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_LIMIT = 65536, PIECE = 1 << 22, EVENTS = 64 };

struct upload {
  int fd;
  size_t filled;       // bytes of `head` that are there
  long long left;      // bytes of the body to come; -1: the head is not complete
  int checked;
  uint32_t low, high;  // Adler-32
  char head[HEAD_LIMIT + 1];
};

static char piece[PIECE];
static const char *head_file;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void add(struct upload *it, const char *data, size_t count) {
  for (size_t at = 0; at < count;) {
    size_t end = count - at > 5552 ? at + 5552 : count;  // the most that cannot overflow
    for (; at < end; at++) {
      it->low += (unsigned char)data[at];
      it->high += it->low;
    }
    it->low %= 65521;
    it->high %= 65521;
  }
}

static void note(struct upload *it, size_t count) {
  FILE *file = fopen(head_file, "wb");
  if (!file || fwrite(it->head, 1, count, file) != count || fclose(file)) fail("the file of the head");
}

static int say(struct upload *it, const char *text, size_t count) {
  return send(it->fd, text, count, MSG_NOSIGNAL) == (ssize_t)count ? 0 : -1;
}

static int answer(struct upload *it) {
  char text[256];
  int count = snprintf(text, sizeof text,
                       "HTTP/1.1 200 OK\r\nServer: sink\r\nx-amz-request-id: 0123456789ABCDEF\r\n"
                       "ETag: \"%08x\"\r\nContent-Length: 0\r\n\r\n",
                       it->high << 16 | it->low);
  it->left = -1;
  return say(it, text, count);
}

// Take up the head at the front of the buffer, and the part of the body that came with it. -1: end the connection.
static int begin(struct upload *it) {
  static const char unframed[] = "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  static const char proceed[] = "HTTP/1.1 100 Continue\r\n\r\n";
  it->head[it->filled] = 0;
  char *end = strstr(it->head, "\r\n\r\n");
  if (!end) return it->filled < HEAD_LIMIT ? 0 : -1;
  size_t size = end + 4 - it->head;
  char *target = strchr(it->head, ' '), *line = strstr(it->head, "\r\n");
  if (!target || target > line) return -1;
  *line = 0;
  it->checked = strstr(target, "checked") != NULL;
  int stalled = strstr(target, "stalled") != NULL;
  *line = '\r';
  it->left = 0;
  it->low = 1;
  it->high = 0;
  for (char *field = line + 2; field < end; field = strstr(field, "\r\n") + 2) {
    if (!strncasecmp(field, "content-length:", 15)) it->left = atoll(field + 15);
    if (!strncasecmp(field, "transfer-encoding:", 18)) {
      say(it, unframed, sizeof unframed - 1);
      return -1;
    }
    if (!strncasecmp(field, "expect:", 7) && say(it, proceed, sizeof proceed - 1)) return -1;
  }
  if (it->checked) note(it, size);
  size_t body = it->filled - size;
  if ((long long)body > it->left) return -1;  // no client pipelines here: bytes too many are a fault of the proxy
  if (it->checked) add(it, it->head + size, body);
  it->left -= body;
  it->filled = 0;
  if (stalled) return 1;
  return it->left ? 0 : answer(it);
}

// 0: go on, 1: never read from it again, -1: end the connection.
static int receive(struct upload *it) {
  for (;;) {
    ssize_t count;
    if (it->left < 0) {
      count = recv(it->fd, it->head + it->filled, HEAD_LIMIT - it->filled, MSG_DONTWAIT);
    } else {
      size_t most = it->left < PIECE ? (size_t)it->left : PIECE;
      count = recv(it->fd, piece, most, MSG_DONTWAIT | (it->checked ? 0 : MSG_TRUNC));
    }
    if (count < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (!count) return -1;
    int next;
    if (it->left < 0) {
      it->filled += count;
      next = begin(it);
    } else {
      if (it->checked) add(it, piece, count);
      it->left -= count;
      next = it->left ? 0 : answer(it);
    }
    if (next) return next;
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  head_file = argv[2];
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int listening = socket(AF_INET, SOCK_STREAM, 0), yes = 1, epoll = epoll_create1(0);
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 1024)) fail("listen");
  struct epoll_event event = {.events = EPOLLIN}, events[EVENTS];
  epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &event);
  for (;;) {
    int ready = epoll_wait(epoll, events, EVENTS, -1);
    for (int at = 0; at < ready; at++) {
      struct upload *it = events[at].data.ptr;
      if (!it) {
        it = calloc(1, sizeof *it);
        if (!it) fail("memory");
        it->fd = accept(listening, NULL, NULL);
        it->left = -1;
        event = (struct epoll_event){.events = EPOLLIN, .data.ptr = it};
        if (it->fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, it->fd, &event)) fail("accept");
        continue;
      }
      int next = receive(it);
      if (next > 0) {
        // Still told when the other side goes, which needs no flag.
        event = (struct epoll_event){.events = 0, .data.ptr = it};
        epoll_ctl(epoll, EPOLL_CTL_MOD, it->fd, &event);
      } else if (next < 0 || events[at].events & (EPOLLHUP | EPOLLERR)) {
        close(it->fd);
        free(it);
      }
    }
  }
}
