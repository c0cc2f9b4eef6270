// TensorFlow file system for `fifo://`: reads a FIFO once, from its first byte to its last.
//
//     fifo:///opt/ml/input/data/train_0?channel=train&timeout=600
//
// TensorFlow's own file system reads with pread(), which a FIFO does not support ("Illegal seek"). In this one, an
// offset other than the next byte's is an error. Errors in the stream are DATA_LOSS with a message.
//
// Use it without TensorFlow's buffer (buffer_size=0). It has its own buffer, and filling another one would wait for
// bytes after the requested record, which the stream's writer may only send after that record is used.
#include <cstdlib>
#include <cstring>
#include <string>

#include "checked_reader.h"
#include "tensorflow/c/experimental/filesystem/filesystem_interface.h"
#include "tensorflow/c/tf_status.h"

namespace {

struct OpenFifo {
  OpenFifo(const std::string& channel, const std::string& path, double timeout) : bytes(channel, path, timeout) {}
  traingrid::CheckedReader bytes;
  uint64_t position = 0;
};

// Returns a value from the query part of a URI. Values are percent-encoded.
std::string QueryValue(const std::string& query, const std::string& name, const std::string& otherwise) {
  const size_t found = ("&" + query).find("&" + name + "=");
  if (found == std::string::npos) return otherwise;
  const size_t start = found + name.size() + 1;
  const std::string encoded = query.substr(start, query.find('&', start) - start);
  std::string value;
  for (size_t at = 0; at < encoded.size(); ++at) {
    if (encoded[at] == '%' && at + 2 < encoded.size()) {
      value += static_cast<char>(std::strtol(encoded.substr(at + 1, 2).c_str(), nullptr, 16));
      at += 2;
    } else {
      value += encoded[at] == '+' ? ' ' : encoded[at];
    }
  }
  return value;
}

void Close(TF_RandomAccessFile* file) { delete static_cast<OpenFifo*>(file->plugin_file); }

int64_t Read(const TF_RandomAccessFile* file, uint64_t offset, size_t size, char* buffer, TF_Status* status) {
  auto* fifo = static_cast<OpenFifo*>(file->plugin_file);
  if (offset != fifo->position) {
    TF_SetStatus(status, TF_UNIMPLEMENTED, "A FIFO can only be read once, from its first byte to its last.");
    return -1;
  }
  std::string failure;
  const size_t got = fifo->bytes.Read(buffer, size, &failure);
  fifo->position += got;
  if (got == size) {
    TF_SetStatus(status, TF_OK, "");
  } else if (!failure.empty()) {
    TF_SetStatus(status, TF_DATA_LOSS, failure.c_str());
  } else {
    TF_SetStatus(status, TF_OUT_OF_RANGE, "The stream has ended.");
  }
  return static_cast<int64_t>(got);
}

void Open(const TF_Filesystem*, const char* uri, TF_RandomAccessFile* file, TF_Status* status) {
  const std::string all = uri;
  const size_t mark = all.rfind('?');
  const std::string query = mark == std::string::npos ? "" : all.substr(mark + 1);
  const std::string path = all.substr(0, mark);
  const double timeout = std::strtod(QueryValue(query, "timeout", "600").c_str(), nullptr);
  file->plugin_file = new OpenFifo(QueryValue(query, "channel", path), path, timeout);
  TF_SetStatus(status, TF_OK, "");
}

void Exists(const TF_Filesystem*, const char*, TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");  // the FIFO may not exist yet; reading waits for it
}

void Init(TF_Filesystem*, TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }

void Cleanup(TF_Filesystem*) {}

void* Allocate(size_t size) { return std::calloc(1, size); }

}  // namespace

void TF_InitPlugin(TF_FilesystemPluginInfo* info) {
  info->plugin_memory_allocate = Allocate;
  info->plugin_memory_free = std::free;
  info->num_schemes = 1;
  info->ops = static_cast<TF_FilesystemPluginOps*>(Allocate(sizeof(TF_FilesystemPluginOps)));
  TF_SetFilesystemVersionMetadata(info->ops);
  info->ops->scheme = strdup("fifo");
  auto* files = static_cast<TF_RandomAccessFileOps*>(Allocate(TF_RANDOM_ACCESS_FILE_OPS_SIZE));
  files->cleanup = Close;
  files->read = Read;
  info->ops->random_access_file_ops = files;
  auto* filesystem = static_cast<TF_FilesystemOps*>(Allocate(TF_FILESYSTEM_OPS_SIZE));
  filesystem->init = Init;
  filesystem->cleanup = Cleanup;
  filesystem->new_random_access_file = Open;
  filesystem->path_exists = Exists;
  info->ops->filesystem_ops = filesystem;
}
