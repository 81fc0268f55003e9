//! Signals that end the program: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
//!
//! A separate thread receives them, so that they work even when every thread of the server is blocked. The first signal is
//! forwarded, because a graceful stop leaves no processes behind. A signal that is not consumed, because the program is
//! already stopping or stuck, ends it at once.

use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Time limit for a graceful stop; longer than the limits in [`setup::stop`](crate::setup::stop) together.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Effect of the first signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstSignal {
    /// Starts a graceful stop, which is limited to [`STOP_LIMIT`].
    Stops,
    /// Is forwarded without a time limit; the receiver decides what to do.
    IsForwarded,
}

/// Receiver of signals. Once it is dropped, the next signal ends the program at once.
pub(crate) struct Interrupts(Receiver<()>);

impl Interrupts {
    /// Starts listening. No signal is missed once this returns.
    pub(crate) fn listen(first: FirstSignal) -> anyhow::Result<Self> {
        // Room for one: a full channel means that the first signal was not consumed.
        let (sender, receiver) = channel(1);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(async {
                    let signals = Signals::listen();
                    let listening =
                        signals.as_ref().map(drop).map_err(|error| std::io::Error::from(error.kind()));
                    drop(ready.send(listening));
                    if let Ok(signals) = signals {
                        forward(signals, &sender, first).await;
                    }
                }),
                Err(error) => drop(ready.send(Err(error))),
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(thread).context("cannot start a thread")?;
        is_ready.recv().context("the signal thread ended")?.context("cannot install signal handlers")?;
        Ok(Self(receiver))
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Forwards signals until one has to end the program.
async fn forward(mut signals: Signals, sender: &Sender<()>, first: FirstSignal) {
    loop {
        let number = signals.next().await;
        if sender.try_send(()).is_err() {
            exit(number);
        }
        if first == FirstSignal::Stops {
            // The next signal or the time limit ends the program, whichever comes first.
            let again = tokio::time::timeout(STOP_LIMIT, signals.next()).await;
            exit(again.unwrap_or(number));
        }
    }
}

/// Ends the program at once, with the exit code that shells use for a signal. Prints nothing: standard error may block.
#[allow(clippy::disallowed_methods, reason = "main may be blocked, or the user does not want to wait for it")]
fn exit(number: i32) -> ! {
    std::process::exit(128 + number)
}

/// Handlers of the signals that end the program.
struct Signals([(SignalKind, Signal); 3]);

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let listen = |kind| signal(kind).map(|signal| (kind, signal));
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// Waits for the next signal, and returns its number.
    async fn next(&mut self) -> i32 {
        let [interrupt, terminate, hangup] = &mut self.0;
        let kind = tokio::select! {
            _ = interrupt.1.recv() => interrupt.0,
            _ = terminate.1.recv() => terminate.0,
            _ = hangup.1.recv() => hangup.0,
        };
        kind.as_raw_value()
    }
}
