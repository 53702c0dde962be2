/* Where a rank's steps are: as the host marked them, otherwise by what its GPU repeats. */
#pragma once
#include "profile.h"

/* Fills in the rank's steps and how they were found. Its activities are sorted by start. */
void steps_find(ProfileRank *rank);
