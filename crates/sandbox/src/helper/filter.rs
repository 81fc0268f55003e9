//! System calls that programs inside cannot make. They fail with `EPERM`, so that a program that can do without goes on.
//!
//! A list of what is denied, not of what is allowed: programs that people build need calls that nobody has thought of, and the
//! walls are the namespaces. What is denied leads around them, or is a part of the kernel that only few programs need.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use super::{Context, Failure};
use crate::plan::Walls;

/// Calls of the other interface of x86-64 processors have the same numbers with this bit.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Calls that have numbers of their own there, too.
#[cfg(target_arch = "x86_64")]
const X32_OWN: [(i64, i64); 7] = [
    (libc::SYS_ioctl, 514),
    (libc::SYS_ptrace, 521),
    (libc::SYS_rt_sigqueueinfo, 524),
    (libc::SYS_kexec_load, 528),
    (libc::SYS_rt_tgsigqueueinfo, 536),
    (libc::SYS_process_vm_readv, 539),
    (libc::SYS_process_vm_writev, 540),
];

/// Denied whatever the arguments are.
const DENIED: &[i64] = &[
    // Other processes, above all the helper.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Keys belong to the user, not to a namespace.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Large parts of the kernel, and ways around this list.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    // The system as a whole.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Namespaces that `clone` and `unshare` can create.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// For `unshare` only; in `clone`, this bit is part of a signal's number.
const CLONE_NEWTIME: u64 = 0x80;

/// Types a character into a terminal as if its user had.
const TIOCSTI: u64 = 0x5412;
/// Selects and pastes text of a console.
const TIOCLINUX: u64 = 0x541c;

/// Bits of a mode by which a file runs with the rights of its owner, for everybody.
const SET_IDS: [u64; 2] = [0o4000, 0o2000];
/// Calls that set a mode, and the argument that is the mode.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
];
/// Calls that may create a file, and the argument that is the flags; the mode follows.
const OPENS: &[(i64, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// Calls that look as if the kernel did not know them. Their flags and modes are behind a pointer, where no filter can look;
/// programs fall back to `clone` and `openat`.
const ABSENT: [i64; 2] = [libc::SYS_clone3, libc::SYS_openat2];

/// Calls that send signals.
const SIGNALS: [i64; 6] = [
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
];

/// Denies the calls, for this process and all that it starts. Without a wall around signals, none can be sent.
pub(super) fn apply(walls: Walls, signals_are_walled: bool) -> Result<(), Failure> {
    let build = || {
        let absent = ABSENT.iter().map(|call| (*call, Vec::new())).collect();
        let mut denied = denied(walls)?;
        if !signals_are_walled {
            denied.extend(SIGNALS.iter().map(|call| (*call, Vec::new())));
        }
        Ok::<_, BackendError>([program(denied, libc::EPERM)?, program(absent, libc::ENOSYS)?])
    };
    let filters = build().map_err(io::Error::other).context("cannot build the filter of system calls")?;
    filters.iter().try_for_each(|filter| {
        apply_filter(filter).map_err(io::Error::other).context("cannot filter system calls (seccomp)")
    })
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Condition = Result<SeccompCondition, BackendError>;

fn program(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, BackendError> {
    #[cfg(target_arch = "x86_64")]
    let rules = {
        let own = |call: &i64| X32_OWN.iter().find(|(known, _)| known == call).map(|(_, own)| *own);
        let x32 = rules.iter().flat_map(|(call, rules)| {
            [Some(*call), own(call)].into_iter().flatten().map(|call| (call | X32, rules.clone()))
        });
        let x32: Vec<_> = x32.collect();
        rules.into_iter().chain(x32).collect()
    };
    let action = SeccompAction::Errno(errno.cast_unsigned());
    let target = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, action, target)?.try_into()
}

fn denied(walls: Walls) -> Result<Rules, BackendError> {
    let mut rules: Rules = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    let clone = NAMESPACES.iter().map(|flag| rule([has(0, number(*flag))])).collect::<Result<Vec<_>, _>>()?;
    let mut unshare = clone.clone();
    unshare.push(rule([has(0, CLONE_NEWTIME)])?);
    rules.insert(libc::SYS_clone, clone);
    rules.insert(libc::SYS_unshare, unshare);
    rules.insert(libc::SYS_ioctl, vec![rule([is(1, TIOCSTI)])?, rule([is(1, TIOCLINUX)])?]);
    rules.insert(libc::SYS_socket, sockets(walls)?);
    for (call, mode) in MODES {
        let bits = SET_IDS.map(|bit| rule([has(*mode, bit)]));
        rules.insert(*call, bits.into_iter().collect::<Result<_, _>>()?);
    }
    // The mode counts only if the call creates a file; otherwise the argument is whatever was in a register.
    let creating = [libc::O_CREAT, libc::O_TMPFILE].map(number);
    for (call, flags) in OPENS {
        let bits = SET_IDS.into_iter().flat_map(|bit| creating.map(|create| (create, bit)));
        let bits = bits.map(|(create, bit)| rule([has(*flags, create), has(flags + 1, bit)]));
        rules.insert(*call, bits.collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// Sockets of families that are not behind the walls: `AF_VSOCK` ignores network namespaces.
fn sockets(walls: Walls) -> Result<Vec<SeccompRule>, BackendError> {
    let differs = |family| compare(0, SeccompCmpOp::Ne, number(family));
    match walls {
        Walls::Namespaces => Ok(vec![
            rule([libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(differs))?,
            rule([
                is(0, number(libc::AF_NETLINK)),
                compare(2, SeccompCmpOp::Ne, number(libc::NETLINK_ROUTE)),
            ])?,
        ]),
        // Without namespaces there is no network that is empty, and sockets in files are everywhere.
        Walls::Landlock => Ok(Vec::new()),
    }
}

fn number(constant: libc::c_int) -> u64 {
    u64::from(constant.cast_unsigned())
}

/// A rule for calls that meet all conditions.
fn rule<const N: usize>(conditions: [Condition; N]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
}

fn is(argument: u8, value: u64) -> Condition {
    compare(argument, SeccompCmpOp::Eq, value)
}

fn has(argument: u8, bits: u64) -> Condition {
    compare(argument, SeccompCmpOp::MaskedEq(bits), bits)
}

/// Compares 32 bits: the kernel ignores the others.
fn compare(argument: u8, operator: SeccompCmpOp, value: u64) -> Condition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_can_be_built() {
        for walls in [Walls::Namespaces, Walls::Landlock] {
            let filter = program(denied(walls).unwrap(), libc::EPERM).unwrap();
            assert!(filter.len() > DENIED.len() && filter.len() < 4096, "{}", filter.len());
        }
    }
}
