"""Threads of a program that runs under `phalanx threads`, for gdb.

    gdb -p PID -x phalanx-threads.py

Adds the command `info phalanx-threads`, which lists the threads of the program, and makes `backtrace` show the stack of a
thread that waits, in place of the frames in which its own kernel thread, the home, waits for it. Works with core files.
"""

import gdb
import gdb.unwinder

# Offsets in the record of a thread (`Thread` in crates/threads/src/thread/mod.rs, where they are asserted).
SP, FS, STATE, HOME = 0, 8, 68, 72
PARKED = 1
SYS_FUTEX = 202
# The frame that `switch` saves: 8 bytes of modes, five registers, the frame pointer, the return address.
FRAME_POINTER, RETURN = 48, 56
MAX_FRAMES, MAX_PAGES = 32, 1024


def read(address, size):
    """An unsigned number in memory, or None."""
    try:
        data = gdb.selected_inferior().read_memory(address, size)
    except gdb.MemoryError:
        return None
    return int.from_bytes(bytes(data), "little")


def record(register):
    """The address of the record of the thread whose home waits in the selected kernel thread, or None."""
    try:
        if int(register("orig_rax")) & 0xFFFFFFFF != SYS_FUTEX:
            return None
        address = (int(register("rdi")) & (2**64 - 1)) - HOME
        base = int(register("fs_base")) & (2**64 - 1)
    except (gdb.error, ValueError):
        return None
    if address % 64 != 0 or read(address + FS, 8) != base or read(address + HOME, 4) != 0:
        return None
    return address


def library(pc):
    """The range of the code of the preloaded library, which gdb cannot read: it is a file in memory."""
    for base in range(pc & ~0xFFF, (pc & ~0xFFF) - MAX_PAGES * 4096, -4096):
        if read(base, 4) != 0x464C457F:
            continue
        headers, size, count = read(base + 32, 8), read(base + 54, 2), read(base + 56, 2)
        for header in range(base + headers, base + headers + size * count, size):
            is_code = read(header, 4) == 1 and read(header + 4, 4) & 1
            if is_code:
                start = base + read(header + 16, 8)
                return range(start, start + read(header + 40, 8))
        break
    return range(0)


class Frame:
    """The identity of a frame."""

    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class WaitingThread(gdb.unwinder.Unwinder):
    """Continues a home's backtrace with the frames of its thread, if the thread is parked."""

    def __init__(self):
        super().__init__("phalanx-threads")

    def __call__(self, pending):
        address = record(pending.read_register)
        if address is None or read(address + STATE, 4) != PARKED:
            return None
        inner = int(pending.read_register("rip")) & (2**64 - 1)
        saved = read(address + SP, 8)
        # Only the innermost frame is behind a system call.
        if saved is None or read(inner - 2, 2) != 0x050F:
            return None
        # The library is compiled with frame pointers.
        own = library(inner)
        sp, frame, pc = saved + RETURN + 8, read(saved + FRAME_POINTER, 8), read(saved + RETURN, 8)
        for _ in range(MAX_FRAMES):
            if pc not in own:
                break
            sp, frame, pc = frame + 16, read(frame, 8), read(frame + 8, 8)
        # gdb requires that outer frames have higher addresses, but the home waits above its thread's frames.
        info = pending.create_unwind_info(Frame(gdb.Value(saved), gdb.Value(inner)))
        word = gdb.lookup_type("long")
        for name, value in (("rsp", sp), ("rbp", frame), ("rip", pc)):
            info.add_saved_register(name, gdb.Value(value).cast(word))
        return info


class InfoThreads(gdb.Command):
    """List the threads of a program that runs under `phalanx threads`."""

    def __init__(self):
        super().__init__("info phalanx-threads", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        selected = gdb.selected_thread()
        bases, homes = {}, []
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
            thread.switch()
            frame = gdb.newest_frame()
            address = record(frame.read_register)
            if address is None:
                bases[int(frame.read_register("fs_base")) & (2**64 - 1)] = thread.num
            homes.append((thread, address))
        print("gdb  kernel thread  name              state")
        for thread, address in homes:
            state = "at home, or a carrier or the monitor"
            if address is not None:
                on = bases.get(read(address + FS, 8))
                parked = read(address + STATE, 4) == PARKED
                state = f"runs on thread {on}" if on else "waits" if parked else "runnable"
            print(f"{thread.num:<4} {thread.ptid[1]:<14} {thread.name or '':<17} {state}")
        if selected is not None:
            selected.switch()


gdb.unwinder.register_unwinder(None, WaitingThread(), True)
InfoThreads()
