// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/course.h"

#include <algorithm>

namespace bellows::trainer {

namespace {

double seconds_since(Course::Clock::time_point start) {
  return std::chrono::duration<double>(Course::Clock::now() - start).count();
}

Course::Clock::time_point before(Course::Clock::time_point end, double seconds) {
  return end - std::chrono::duration_cast<Course::Clock::duration>(
                   std::chrono::duration<double>(seconds));
}

}  // namespace

Course::Note Course::note() const {
  Note note;
  note.begun = begun;
  note.ending = ending;
  note.stopping = stopping;
  note.ended = ended;
  note.settled_step = settled_step;
  note.evaluated_step = evaluated_step;
  note.told_step = told_step;
  note.saved_step = saved_step;
  note.committed_epoch = committed_epoch;
  note.ranks = ranks;
  note.batch = batch;
  note.micro_batch = micro_batch;
  note.test = test;
  note.evaluation_seconds = evaluation_seconds;
  note.started_ago = seconds_since(started);
  note.saved_ago = seconds_since(saved);
  note.worked_ago = seconds_since(worked);
  note.first_done = first_done;
  note.training_seconds = training_seconds;
  note.trained_samples = trained_samples;
  return note;
}

void Course::take(const Note& note, Clock::time_point noted) {
  begun = note.begun != 0;
  ending = note.ending != 0;
  stopping = note.stopping != 0;
  ended = note.ended != 0;
  settled_step = note.settled_step;
  evaluated_step = note.evaluated_step;
  told_step = note.told_step;
  saved_step = note.saved_step;
  committed_epoch = note.committed_epoch;
  ranks = note.ranks;
  batch = note.batch;
  micro_batch = note.micro_batch;
  test = note.test;
  evaluation_seconds = note.evaluation_seconds;
  started = before(noted, note.started_ago);
  saved = before(noted, note.saved_ago);
  worked = before(noted, note.worked_ago);
  first_done = note.first_done;
  training_seconds = note.training_seconds;
  trained_samples = note.trained_samples;
}

Course::Note combine(std::span<const Course::Note> notes, std::size_t leader) {
  Course::Note all = notes[leader];
  for (const Course::Note& one : notes) {
    all.begun |= one.begun;
    all.ending |= one.ending;
    all.stopping |= one.stopping;
    all.ended |= one.ended;
    all.settled_step = std::max(all.settled_step, one.settled_step);
    all.told_step = std::max(all.told_step, one.told_step);
    all.saved_step = std::max(all.saved_step, one.saved_step);
    if (one.evaluated_step > all.evaluated_step) {
      all.evaluated_step = one.evaluated_step;
      all.test = one.test;
      all.evaluation_seconds = one.evaluation_seconds;
    }
  }
  return all;
}

}  // namespace bellows::trainer
