// SPDX-License-Identifier: Apache-2.0
// Figures and tables of how the speed depends on the number of ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/report/figure.h"
#include "trainer/report/prediction.h"
#include "trainer/report/scaling.h"

namespace bellows::report {

struct NamedScaling {
  std::string name;
  Scaling scaling;
  std::optional<Predictions> predictions = {};  // of predict()
};

struct Price {
  double per_rank_hour = 0;
  std::string currency;
};

Figure speedup_figure(const std::vector<NamedScaling>& all);
Figure efficiency_figure(const std::vector<NamedScaling>& all);
Figure breakdown_figure(const std::vector<NamedScaling>& all);
Figure cost_figure(const std::vector<NamedScaling>& all, const std::optional<Price>& price);

Table scaling_table(const std::vector<NamedScaling>& all);
/// Sentences on the fits.
std::vector<std::string> fit_sentences(const NamedScaling& named);
/// What speaks against the numbers: better than ideal, batches that cannot be compared.
std::vector<std::string> doubts(const NamedScaling& named);

}  // namespace bellows::report
