//! The thin part around the interface that does what is not pure: terminal, network, clock.
//!
//! One loop: whatever happened is folded, then at most one frame is drawn. A frame is made only when the one before it has
//! reached the terminal and the line has room for it, so a slow line skips frames and delays nothing else.

mod input;
mod net;
mod outside;
mod terminal;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use baton_client::Client;
use crossterm::event::EventStream;
use futures_util::StreamExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use self::net::Network;
pub use self::outside::Environment;
use self::terminal::{Restored, Screen, Writer};
use crate::draw::{Frame, draw};
use crate::event::{Drawn, Effect, Event};
use crate::state::{About, Link, State};
use crate::theme::Theme;

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(16);
/// Bytes that are written in a second, and that may be written at once after a silence.
const BYTES_PER_SECOND: f64 = 64.0 * 1024.0;
/// News that wait to be folded; the network waits when there are more.
const MAX_NEWS: usize = 4096;

/// A future that can be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Finds servers.
pub trait Servers: Send + Sync + 'static {
    /// Connects to the server of a session, of any if none is named. Called again whenever the connection breaks.
    fn connect<'a>(&'a self, session: Option<&'a str>) -> BoxFuture<'a, anyhow::Result<Found>>;
}

/// A server that was found.
pub struct Found {
    /// The connection to it.
    pub client: Client,
    /// What people should know about it.
    pub note: Option<String>,
}

/// The session to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// A new one.
    New,
    /// One with this id or prefix of an id.
    Existing(String),
    /// The one that changed last.
    Newest,
}

/// What the interface is started with.
pub struct Options {
    /// Finds servers.
    pub servers: Arc<dyn Servers>,
    /// The session to begin with.
    pub start: Start,
    /// What does not change.
    pub about: About,
    /// Colours.
    pub theme: Theme,
    /// Whether the mouse is used.
    pub mouse: bool,
    /// Working directory.
    pub cwd: PathBuf,
    /// Variables for the commands of sessions that are created here; only servers of this machine get them.
    pub variables: BTreeMap<String, String>,
    /// Directory for the file of earlier prompts.
    pub directory: PathBuf,
    /// What the environment says about the terminal.
    pub environment: Environment,
}

/// How the interface was left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Left {
    /// The session that was open, if anything was said in it.
    pub session: Option<String>,
    /// The last answer.
    pub answer: Option<String>,
    /// Why it could not go on.
    pub failure: Option<String>,
}

/// Runs the interface until the user leaves.
///
/// # Errors
/// When the terminal cannot be used.
pub async fn run(options: Options) -> anyhow::Result<Left> {
    let (columns, rows) = crossterm::terminal::size()?;
    terminal::restore_on_panic();
    terminal::enter(options.mouse)?;
    let _restored = Restored;
    let state = State::new((columns, rows), options.theme, options.about.clone());
    let mut shell = Shell::new(options, state)?;
    shell.run().await?;
    terminal::leave();
    Ok(shell.left().await)
}

struct Shell {
    state: State,
    network: Network,
    news: mpsc::Receiver<net::News>,
    /// What other threads have to say.
    reports: mpsc::Receiver<Report>,
    reporter: mpsc::Sender<Report>,
    input: Option<EventStream>,
    writer: Writer,
    screen: Screen,
    started: Instant,
    /// Whether something changed since the last frame.
    is_dirty: bool,
    /// What the frame shows that is being written.
    writing: Option<Drawn>,
    next_frame: Instant,
    /// Bytes that may be written now, and when they were counted.
    budget: (f64, Instant),
    mouse: bool,
    directory: PathBuf,
    environment: Environment,
    start: Start,
    cwd: PathBuf,
    is_leaving: bool,
}

enum Report {
    Written(bool),
    Happened(Event),
}

/// Signals that the interface handles.
struct Signals {
    terminate: Signal,
    hang_up: Signal,
    interrupt: Signal,
    stop: Signal,
}

/// What a signal asks for.
enum Asked {
    End,
    Stop,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let stop = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            stop: signal(stop)?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End,
            _ = self.hang_up.recv() => Asked::End,
            _ = self.interrupt.recv() => Asked::End,
            _ = self.stop.recv() => Asked::Stop,
        }
    }
}

impl Shell {
    fn new(options: Options, state: State) -> anyhow::Result<Self> {
        let (news_sender, news) = mpsc::channel(MAX_NEWS);
        let (reporter, reports) = mpsc::channel(64);
        let network = Network::new(options.servers, news_sender, options.cwd.clone(), options.variables);
        let written = reporter.clone();
        let writer = Writer::start(move |is_written| {
            let _ = written.blocking_send(Report::Written(is_written));
        });
        let now = Instant::now();
        Ok(Self {
            state,
            network,
            news,
            reports,
            reporter,
            input: Some(EventStream::new()),
            writer,
            screen: Screen::default(),
            started: now,
            is_dirty: true,
            writing: None,
            next_frame: now,
            budget: (BYTES_PER_SECOND, now),
            mouse: options.mouse,
            directory: options.directory,
            environment: options.environment,
            start: options.start,
            cwd: options.cwd,
            is_leaving: false,
        })
    }

    async fn run(&mut self) -> anyhow::Result<()> {
        let mut signals = Signals::listen()?;
        // The first frame needs no network.
        self.draw();
        self.network.open(self.start.clone());
        let history = self.directory.join("prompts.jsonl");
        self.on_a_thread(move || Event::History(outside::read_history(&history)));
        while !self.is_leaving {
            let wake = self.wake();
            let Some(input) = &mut self.input else { break };
            tokio::select! {
                biased;
                asked = signals.next() => match asked {
                    Asked::End => return Ok(()),
                    Asked::Stop => self.suspend(),
                },
                event = input.next() => match event {
                    Some(Ok(event)) => self.typed(event).await,
                    // The terminal is gone.
                    Some(Err(_)) | None => return Ok(()),
                },
                report = self.reports.recv() => match report {
                    Some(Report::Written(true)) => self.written().await,
                    Some(Report::Written(false)) | None => return Ok(()),
                    Some(Report::Happened(event)) => self.fold(event).await,
                },
                news = self.news.recv() => {
                    if let Some(news) = news {
                        self.told(news).await;
                    }
                }
                () = tokio::time::sleep_until(wake.into()) => self.fold(Event::Tick).await,
            }
            self.draw();
        }
        Ok(())
    }

    /// Returns when to wake up if nothing happens: for the next frame, or because time itself changes what is shown.
    fn wake(&self) -> Instant {
        const IDLE: Duration = Duration::from_secs(3600);
        let now = Instant::now();
        let by_state = self.state.deadline().map(|at| self.started + Duration::from_millis(at));
        let wake = by_state.unwrap_or(now + IDLE);
        match self.is_dirty && self.writing.is_none() {
            true => wake.min(self.next_frame.max(now + self.until_affordable(now))),
            false => wake,
        }
    }

    fn until_affordable(&self, now: Instant) -> Duration {
        let budget = self.budget_at(now);
        Duration::from_secs_f64((-budget / BYTES_PER_SECOND).max(0.0))
    }

    fn budget_at(&self, now: Instant) -> f64 {
        let (budget, since) = self.budget;
        (budget + now.saturating_duration_since(since).as_secs_f64() * BYTES_PER_SECOND).min(BYTES_PER_SECOND)
    }

    /// Draws a frame, if something changed, the one before it is written, and the line has room.
    fn draw(&mut self) {
        let now = Instant::now();
        if !self.is_dirty || self.writing.is_some() || now < self.next_frame || self.budget_at(now) < 0.0 {
            return;
        }
        let Frame { buffer, cursor, drawn } = draw(&self.state);
        let bytes = self.screen.bytes(&buffer, cursor);
        self.is_dirty = false;
        self.budget = (self.budget_at(now) - bytes.len() as f64, now);
        self.next_frame = now + FRAME;
        self.writing = Some(drawn);
        // The queue has room: nothing else is being written.
        self.writer.write(bytes);
    }

    async fn written(&mut self) {
        if let Some(drawn) = self.writing.take() {
            let before = self.is_dirty;
            self.fold(Event::Drawn(drawn)).await;
            self.is_dirty = before;
        }
    }

    async fn typed(&mut self, first: crossterm::event::Event) {
        let mut batch = vec![first];
        // What is there already belongs together: a paste of a terminal that does not say so. The stream remembers the waker of
        // the first poll that finds nothing, so it has to be the loop's own.
        while batch.len() < 4096
            && let Some(input) = &mut self.input
            && let Some(more) = std::future::poll_fn(|context| match input.poll_next_unpin(context) {
                Poll::Ready(event) => Poll::Ready(event.and_then(Result::ok)),
                Poll::Pending => Poll::Ready(None),
            })
            .await
        {
            batch.push(more);
        }
        for event in input::events(batch) {
            self.fold(event).await;
        }
    }

    async fn told(&mut self, first: net::News) {
        let mut news = Some(first);
        let until = Instant::now() + FRAME / 2;
        while let Some((generation, net)) = news {
            if generation == self.network.generation() {
                self.fold(Event::Net(net)).await;
            }
            news = if Instant::now() < until { self.news.try_recv().ok() } else { None };
        }
    }

    async fn fold(&mut self, event: Event) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let effects = self.state.fold(now, event);
        self.is_dirty = true;
        for effect in effects {
            if let Some(effect) = self.network.perform(effect) {
                self.perform(effect).await;
            }
        }
    }

    fn on_a_thread(&self, work: impl FnOnce() -> Event + Send + 'static) {
        let reporter = self.reporter.clone();
        std::thread::spawn(move || {
            let _ = reporter.blocking_send(Report::Happened(work()));
        });
    }

    async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Quit => self.is_leaving = true,
            Effect::Redraw => self.screen.forget(),
            Effect::Edit(text) => self.edit(text).await,
            Effect::Suspend => self.suspend(),
            Effect::Copy(text) => {
                let environment = self.environment.clone();
                // tmux may do it, which is another program.
                let copied = tokio::task::spawn_blocking(move || environment.copy(&text)).await;
                if let Ok(Some(bytes)) = copied {
                    self.writer.write(bytes);
                }
            }
            Effect::Notify(text) => {
                self.writer.write(self.environment.notification(&text));
            }
            Effect::Remember(prompt) => {
                let file = self.directory.join("prompts.jsonl");
                // The program may end next.
                let _ = tokio::task::spawn_blocking(move || outside::remember(&file, &prompt)).await;
            }
            Effect::Highlight(hash, language, text) => {
                self.on_a_thread(move || {
                    Event::Highlighted(hash, baton_markup::highlight::code(&language, &text))
                });
            }
            Effect::ListFiles(prefix) => {
                let (sender, mut found) = mpsc::channel(1);
                let reporter = self.reporter.clone();
                self.network.files(prefix, sender);
                tokio::spawn(async move {
                    if let Some((prefix, files)) = found.recv().await {
                        let _ = reporter.send(Report::Happened(Event::Files(prefix, files))).await;
                    }
                });
            }
            Effect::Export => self.export().await,
            _ => {}
        }
    }

    /// Hands the terminal to the user's editor. The stream of keys is closed meanwhile: they are the editor's.
    async fn edit(&mut self, text: String) {
        let Some(editor) = self.environment.editor.clone() else {
            self.say("set EDITOR to the program that edits texts");
            return;
        };
        self.input = None;
        terminal::leave();
        let directory = self.directory.clone();
        let work = move || outside::edit(&editor, &text, &directory);
        let edited = tokio::task::spawn_blocking(work).await.ok().flatten();
        self.come_back();
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let _ = self.state.fold(now, Event::Edited(edited));
    }

    /// Stops the program as the shell's job control expects, and comes back when it is continued.
    fn suspend(&mut self) {
        self.input = None;
        terminal::leave();
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
        self.come_back();
    }

    fn come_back(&mut self) {
        let _ = terminal::enter(self.mouse);
        self.input = Some(EventStream::new());
        self.screen.forget();
        self.is_dirty = true;
        if let Ok((columns, rows)) = crossterm::terminal::size() {
            let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let _ = self.state.fold(now, Event::Resize(columns, rows));
        }
    }

    fn say(&mut self, text: &str) {
        self.state.say(text);
        self.is_dirty = true;
    }

    async fn export(&mut self) {
        let (cwd, session) = (self.cwd.clone(), self.state.session.id.clone());
        let text = self.state.conversation.as_markdown();
        let written = tokio::task::spawn_blocking(move || outside::export(&cwd, &session, &text)).await;
        match written {
            Ok(Ok(path)) => {
                self.say(&format!("written to {}", crate::text::one_line(&path.display().to_string())));
            }
            Ok(Err(error)) => self.say(&format!("cannot write: {error}")),
            Err(_) => self.say("cannot write the file"),
        }
    }

    /// Returns how the interface is left. A new session in which nothing was said is deleted.
    async fn left(&mut self) -> Left {
        let failure = match &self.state.link {
            Link::Fatal(why) => Some(why.clone()),
            _ => None,
        };
        let said = self.state.conversation.prompts().next().is_some() || !self.state.queue.is_empty();
        let is_ours = self.start == Start::New && self.network.generation() == 1;
        if !said && is_ours && failure.is_none() && self.state.session.watching <= 1 {
            const LIMIT: Duration = Duration::from_secs(1);
            let _ = tokio::time::timeout(LIMIT, self.network.forget()).await;
            return Left::default();
        }
        Left {
            session: self.network.session(),
            answer: self.state.conversation.last_answer().map(str::to_owned),
            failure,
        }
    }
}
