// SPDX-License-Identifier: Apache-2.0
// A report as one page that needs nothing else: no network, no scripts.
#pragma once

#include <string>

#include "trainer/report/figure.h"

namespace bellows::report {

/// Throws PlotError.
std::string html_page(const Contents& contents);

}  // namespace bellows::report
