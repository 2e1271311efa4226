/* The loss and gradient of one utterance from C. In the folder ctc/:
 *   cc examples/loss.c -Iinclude -L_build -lctc -Wl,-rpath,"$PWD/_build" -lm -o /tmp/loss && /tmp/loss
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctc.h"

enum { FRAMES = 2, CLASSES = 5, LABELS = 2 };

static void stop_unless(ctcStatus_t status) {
    if (status == CTC_STATUS_SUCCESS) return;
    fprintf(stderr, "ctc: %s\n", ctcGetStatusString(status));
    exit(1);
}

int main(void) {
    const float activations[FRAMES * CLASSES] = {0.1f, 0.6f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.6f, 0.1f, 0.1f};
    const int labels[LABELS] = {1, 2}, label_length = LABELS, input_length = FRAMES;
    struct ctcOptions options = {.loc = CTC_CPU, .num_threads = 1, .blank_label = 0};

    size_t bytes;
    stop_unless(get_workspace_size(&label_length, &input_length, CLASSES, 1, options, &bytes));
    void* workspace = malloc(bytes);
    float cost, gradient[FRAMES * CLASSES];
    stop_unless(compute_ctc_loss(activations, gradient, labels, &label_length, &input_length, CLASSES, 1, &cost,
                                 workspace, options));
    free(workspace);

    /* Two frames leave one path: label 1, then label 2. */
    const double others = 4 * exp(0.1), p = exp(0.6) / (exp(0.6) + others);
    printf("loss %.6f, by hand %.6f\n", cost, -2 * log(p));
    for (int k = 0; k < CLASSES; k++) printf("%s%+.6f", k ? " " : "gradient of frame 0: ", gradient[k]);
    printf("\n");
    return fabs(cost + 2 * log(p)) > 1e-6;
}
