//! Functions made flat and written back.

mod calls;
mod control_flow;
mod made;
mod top_level;
mod unread;
mod written_back;
