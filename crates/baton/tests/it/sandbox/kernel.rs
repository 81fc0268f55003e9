//! System calls that lead around the walls.

use super::arena::{escape, escape_of_root, needs_walls, python, try_all};

#[tokio::test]
async fn system_calls_that_lead_out_are_denied() {
    needs_walls!();
    try_all(
        |_| {},
        |_| {
            let socket = |family: &str, kind: &str| python(&format!("socket.socket({family}, socket.{kind})"));
            vec![
                escape("ptrace", python("call(101, 0, 0, 0, 0)")),
                escape(
                    "memory of another process",
                    python(
                        "import os, time\ntext = ctypes.create_string_buffer(8)\n\
                         iov = (ctypes.c_uint64 * 2)(ctypes.addressof(text), 8)\n\
                         child = os.fork()\nif not child: time.sleep(60)\n\
                         try: call(310, child, iov, 1, iov, 1, 0)\nfinally: os.kill(child, 9)",
                    ),
                ),
                escape("keyring", python("call(248, b'user', b'walls', b'x', 1, -2)")),
                escape("io_uring", python("call(425, 4, (ctypes.c_uint8 * 120)())")),
                escape("performance events", python(
                    "a = (ctypes.c_uint64 * 16)()\na[0] = 1 | (128 << 32)\na[5] = 0x60\ncall(298, a, 0, -1, -1, 0)")),
                escape("user namespace", "unshare -r true"),
                escape("user namespace by clone", python("import os\nif call(56, 0x10000000 | 17, 0, 0, 0, 0) == 0: os._exit(0)")),
                escape("clone3", python("import os\na = (ctypes.c_uint64 * 11)()\na[4] = 17\nif call(435, a, 88) == 0: os._exit(0)")),
                escape("vsock", socket("40", "SOCK_STREAM")),
                escape("audit of the kernel", python("socket.socket(16, socket.SOCK_RAW, 9)")),
                escape_of_root("raw packets", socket("17", "SOCK_RAW")),
                escape_of_root("raw addresses", python("socket.socket(2, socket.SOCK_RAW, 1)")),
                escape_of_root("bpf", python("a = (ctypes.c_uint32 * 32)()\na[0] = 2; a[1] = 4; a[2] = 8; a[3] = 1\ncall(321, 0, a, 72)")),
                escape_of_root("messages of the kernel", python("call(103, 10, 0, 0)")),
                escape_of_root("host name", "hostname \"$(hostname)\""),
                escape_of_root("another root", "chroot / true"),
            ]
        },
    )
    .await;
}

#[tokio::test]
async fn crashed_programs_leave_no_core() {
    needs_walls!();
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if pattern.starts_with(['|', '/']) {
        return baton_testkit::cannot_run!("core dumps of this machine do not go to the working directory");
    }
    try_all(
        |_| {},
        |_| vec![escape("core dump", "ulimit -c unlimited; rm -f core*; sh -c 'kill -SEGV $$'; ls core*")],
    )
    .await;
}
