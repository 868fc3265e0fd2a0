// One compiled engine in a process of its own. `portwright engine-worker` serves it; RemoteSession is this side of it.
#pragma once

#include <memory>

#include "portwright/engine.h"

namespace portwright {

// Serves requests until the parent closes the channel; gives the exit code. The body of `portwright engine-worker`.
//   compile {structure: described tensor, folder, options} -> {info, inputs, outputs, load_seconds, compile_seconds}
//   load    {engine_folder, options}                       -> the same
//   supports {structure, folder, options}                  -> {nodes: [{node, op_type, supported, reason}]}
//   run     {inputs}                                        -> {outputs, seconds}
//   time    {inputs, runs}                                  -> {seconds: [..]}
int engine_worker_main();

// Asks an engine about every node, in a worker: asking may crash too.
Result<std::vector<NodeSupport>> ask_support(const Model& model, const Target& target, const Isolation& isolation);

}  // namespace portwright
