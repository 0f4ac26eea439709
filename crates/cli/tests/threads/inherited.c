// The signals and standard descriptors with which the program begins.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

int main(void) {
    FILE *output = fopen("output", "w");
    sigset_t blocked, pending;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigpending(&pending);
    for (int signal = 1; signal < 32; signal++) {
        struct sigaction action;
        sigaction(signal, NULL, &action);
        const char *effect = action.sa_handler == SIG_DFL ? "" : action.sa_handler == SIG_IGN ? " ignored" : " handled";
        const char *is_blocked = sigismember(&blocked, signal) ? " blocked" : "";
        const char *is_pending = sigismember(&pending, signal) ? " pending" : "";
        fprintf(output, "signal %d:%s%s%s\n", signal, effect, is_blocked, is_pending);
    }
    for (int descriptor = 0; descriptor < 20; descriptor++) {
        int flags = fcntl(descriptor, F_GETFD);
        if (flags >= 0) fprintf(output, "descriptor %d: %d, %d\n", descriptor, flags, fcntl(descriptor, F_GETFL));
    }
    return 0;
}
