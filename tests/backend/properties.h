// The properties that every operation of every table must have, as functions: empty, or the first violation. ops_test.cc asks them of the
// tables of this machine, faults_test.cc of faulty ones.
#pragma once

#include "op_case.h"

namespace deepinfer::optest {

// Within the case's bounds of the reference.
std::string close_to_reference(const OpCase& op, const Kernels& table);
// What the case says of its own outputs.
std::string relations(const OpCase& op, const Kernels& table);
// The same bits as `other`, with one, two and three threads; only the outputs are written and scratch is given back.
std::string agrees_with(const OpCase& op, const Kernels& table, const Kernels& other);
// The batch equals its parts: every unit alone (the first eight, the last), and cuts of growing size; nothing else is written.
std::string units_are_independent(const OpCase& op, const Kernels& table);

}  // namespace deepinfer::optest
