// The demultiplexer: reads one stream of records and deals them to the FIFOs of a host's ranks.
//
//     deal CHANNEL SOURCE TIMEOUT_SECONDS FIFO...
//
// SOURCE is a FIFO, which may appear later. The FIFOs exist; each has a file FIFO.ending beside it that says what went
// wrong, in case this process is killed; it is emptied when the stream has ended well. Standard input is the lifeline:
// when its writing end closes, the process ends. Signals do not end it, since the ranks, which get the same, may still
// need their data for a last step. Exit code: 0 dealt, or nobody reads any more; 1 the stream is broken.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "dealer.h"

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "usage: %s CHANNEL SOURCE TIMEOUT_SECONDS FIFO...\n", arguments[0]);
    return 2;
  }
  for (int signal : {SIGPIPE, SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_IGN);
  const std::vector<std::string> fifos(arguments + 4, arguments + count);
  traingrid::Dealer dealer(arguments[1], arguments[2], std::strtod(arguments[3], nullptr), STDIN_FILENO, fifos);
  const bool sound = dealer.Deal();
  if (sound) return 0;
  std::fprintf(stderr, "%s\n", dealer.failure().c_str());
  dealer.TellRanks();
  return 1;
}
