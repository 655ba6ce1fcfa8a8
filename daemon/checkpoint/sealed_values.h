// Values of a database that are encrypted, each as the chunks of a file are (sealed_chunks.h):
//
//   value    salt │ chunk │ chunk │ ...
//            32 bytes
//
// A value has no header: its record knows the key, and a reader knows the place of the value, which
// stands for the role of a file. So a value that was moved to another place is refused, and so is
// one that was made a file.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/checkpoint/checkpoint_key.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// The roles of values begin with it, and those of files do not.
inline constexpr std::string_view kSealedValueRole = "value ";

// One text of several words: other words, or the same ones cut elsewhere, give another text.
std::string place_of(std::initializer_list<std::string_view> words);

// Encrypts the values of one record with one key. `owner` is the name of the record in the cluster:
// a value of another record is refused. Threads: any, since it does not change.
class SealedValues {
 public:
  SealedValues(CheckpointKey key, std::string owner)
      : key_(std::move(key)), owner_(std::move(owner)) {}

  const CheckpointKey::Id& key() const { return key_.id(); }

  // The value as the database is to have it: 32 bytes more, and 16 for each 64 KiB. Equal values
  // differ then.
  Result<Bytes> seal(std::string_view place, std::span<const std::byte> value) const;
  // Decrypts it into `out`. False if this is not the value of that place as it was encrypted; `out`
  // is then empty. The error is that of libcrypto.
  Result<bool> open(std::string_view place, std::span<const std::byte> sealed, Bytes& out) const;

 private:
  std::string role_of(std::string_view place) const;

  CheckpointKey key_;
  std::string owner_;
};

}  // namespace leat
