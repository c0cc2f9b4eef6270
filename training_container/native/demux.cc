// The demultiplexer: reads one stream of records, and distributes them to the FIFOs of a host's ranks.
//
//     demux CHANNEL SOURCE TIMEOUT_SECONDS FIFO...
//
// SOURCE is a FIFO that may appear later. The other FIFOs exist. Beside each is a file FIFO.ending, which contains an
// error message in case this process is killed; it is emptied if the stream ends successfully. Standard input is the
// lifeline: the process ends when the writing end is closed. Signals do not end it, because the ranks receive the same
// signals, and may need data for one more step. Exit code: 0 success, or all readers have left; 1 invalid stream.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "demultiplexer.h"

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "usage: %s CHANNEL SOURCE TIMEOUT_SECONDS FIFO...\n", arguments[0]);
    return 2;
  }
  for (int signal : {SIGPIPE, SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_IGN);
  const std::vector<std::string> fifos(arguments + 4, arguments + count);
  traingrid::Demultiplexer demux(arguments[1], arguments[2], std::strtod(arguments[3], nullptr), STDIN_FILENO, fifos);
  const bool sound = demux.Distribute();
  if (sound) return 0;
  std::fprintf(stderr, "%s\n", demux.failure().c_str());
  demux.TellRanks();
  return 1;
}
