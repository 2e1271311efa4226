// What both libraries answer to: the version of the interface, and its statuses in words. For one file of each.
#pragma once

#include "ctc.h"

int get_warpctc_version(void) { return 2; }

const char* ctcGetStatusString(ctcStatus_t status) {
    switch (status) {
        case CTC_STATUS_SUCCESS: return "no error";
        case CTC_STATUS_MEMOPS_FAILED: return "memory copy or set failed";
        case CTC_STATUS_INVALID_VALUE: return "invalid value";
        case CTC_STATUS_EXECUTION_FAILED: return "execution failed";
        default: return "unknown error";
    }
}
