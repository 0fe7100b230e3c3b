// Move large objects through a proxy as fast as it can, over so many connections at once, and say what was moved.
// Arguments: port, file with the request's head, file with its body (or an empty name), connections, objects.
//
// What is received is thrown away by the kernel before it is copied (MSG_TRUNC), and what is sent comes from a file
// without a copy (sendfile): the load must not be what is measured. One thread; answers need a Content-Length.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_LIMIT = 32768, PIECE = 1 << 22, EVENTS = 64, PATIENCE_MS = 60000 };

struct stream {
  int fd;
  size_t asked;    // bytes of the head that were sent
  off_t sent;      // bytes of the body that were sent
  size_t filled;   // bytes of the answer's head that are there
  long long left;  // bytes of the answer's body to come; -1: its head is not complete
  int closes, done;
  char head[HEAD_LIMIT + 1];
};

static char piece[PIECE], *head;
static size_t head_size;
static off_t body_size;
static int body = -1, port, epoll, to_begin, running, not_200, broken;
static long long received, uploaded, objects;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void watch(struct stream *it, int operation, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = it};
  if (epoll_ctl(epoll, operation, it->fd, &event)) fail("epoll");
}

static void open_stream(struct stream *it) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int yes = 1;
  it->fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(it->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (connect(it->fd, (struct sockaddr *)&address, sizeof address)) fail("connect");
  fcntl(it->fd, F_SETFL, O_NONBLOCK);
  watch(it, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
}

// Ask for the next object on this stream, or retire the stream.
static void begin(struct stream *it) {
  if (!to_begin) {
    it->done = 1;
    running--;
    close(it->fd);
    return;
  }
  to_begin--;
  it->asked = it->filled = 0;
  it->sent = 0;
  it->left = -1;
  if (it->closes) {
    close(it->fd);
    it->closes = 0;
    open_stream(it);
  } else {
    watch(it, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
  }
}

static void give_up(struct stream *it) {
  broken++;
  it->closes = 1;
  begin(it);
}

static int ask(struct stream *it) {
  while (it->asked < head_size) {
    ssize_t count = send(it->fd, head + it->asked, head_size - it->asked, MSG_NOSIGNAL | (body < 0 ? 0 : MSG_MORE));
    if (count < 0) return errno == EAGAIN ? 0 : -1;
    it->asked += count;
  }
  while (it->sent < body_size) {
    ssize_t count = sendfile(it->fd, body, &it->sent, body_size - it->sent);
    if (count < 0) return errno == EAGAIN ? 0 : -1;
    uploaded += count;
  }
  watch(it, EPOLL_CTL_MOD, EPOLLIN);
  return 0;
}

static int read_head(struct stream *it) {
  it->head[it->filled] = 0;
  char *end = strstr(it->head, "\r\n\r\n");
  if (!end) return it->filled < HEAD_LIMIT ? 0 : -1;
  int status = strlen(it->head) > 12 ? atoi(it->head + 9) : 0;
  for (char *field = strstr(it->head, "\r\n") + 2; field < end; field = strstr(field, "\r\n") + 2) {
    if (!strncasecmp(field, "content-length:", 15)) it->left = atoll(field + 15);
    if (!strncasecmp(field, "connection: close", 17)) it->closes = 1;
  }
  if (it->left < 0) return -1;
  if (status != 200) not_200++;
  long long here = it->filled - (end + 4 - it->head);
  received += here;
  it->left -= here;
  // An answer before the whole upload was sent is an error of some kind, and no measurement.
  return it->left < 0 || it->asked < head_size || it->sent < body_size ? -1 : 0;
}

static int take(struct stream *it) {
  for (;;) {
    ssize_t count;
    if (it->left < 0) {
      count = recv(it->fd, it->head + it->filled, HEAD_LIMIT - it->filled, 0);
      if (count > 0) {
        it->filled += count;
        if (read_head(it)) return -1;
      }
    } else {
      count = recv(it->fd, piece, it->left < PIECE ? (size_t)it->left : PIECE, MSG_TRUNC);
      if (count > 0) {
        it->left -= count;
        received += count;
      }
    }
    if (!count) return -1;
    if (count < 0) return errno == EAGAIN ? 0 : -1;
    if (!it->left) {
      objects++;
      begin(it);
      return 0;
    }
  }
}

static char *read_file(const char *name, size_t *size) {
  struct stat about;
  int fd = open(name, O_RDONLY);
  if (fd < 0 || fstat(fd, &about)) fail(name);
  char *text = malloc(about.st_size);
  if (!text || read(fd, text, about.st_size) != about.st_size) fail(name);
  *size = about.st_size;
  close(fd);
  return text;
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  port = atoi(argv[1]);
  head = read_file(argv[2], &head_size);
  if (*argv[3]) {
    struct stat about;
    body = open(argv[3], O_RDONLY);
    if (body < 0 || fstat(body, &about)) fail(argv[3]);
    body_size = about.st_size;
  }
  int connections = atoi(argv[4]);
  to_begin = atoi(argv[5]);
  epoll = epoll_create1(0);
  struct timespec began, ended;
  clock_gettime(CLOCK_MONOTONIC, &began);
  struct stream *streams = calloc(connections, sizeof *streams);
  for (int number = 0; number < connections; number++) {
    streams[number].closes = 1;  // there is no connection yet
    streams[number].fd = -1;
    running++;
    begin(&streams[number]);
  }
  struct epoll_event events[EVENTS];
  while (running) {
    int ready = epoll_wait(epoll, events, EVENTS, PATIENCE_MS);
    if (!ready) {
      fputs("nothing moved for a minute\n", stderr);
      return 1;
    }
    for (int at = 0; at < ready; at++) {
      struct stream *it = events[at].data.ptr;
      if (it->done) continue;
      if (events[at].events & EPOLLOUT && ask(it)) {
        give_up(it);
        continue;
      }
      if (events[at].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && take(it)) give_up(it);
    }
  }
  clock_gettime(CLOCK_MONOTONIC, &ended);
  long long microseconds = (ended.tv_sec - began.tv_sec) * 1000000LL + (ended.tv_nsec - began.tv_nsec) / 1000;
  printf("\n{\"objects\":%lld,\"received\":%lld,\"sent\":%lld,\"microseconds\":%lld,\"not_200\":%d,\"broken\":%d}\n",
         objects, received, uploaded, microseconds, not_200, broken);
  return 0;
}
