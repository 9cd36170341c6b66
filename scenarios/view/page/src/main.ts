// Opens what is inside the page; of a cluster that is running, what comes from beside it.
import { type Head, type Part, liveRun, readData } from "./contract";
import { h } from "./dom";
import { setMarks } from "./marks";
import { Player } from "./player";

function follow(head: Head): void {
  const feed = new EventSource("events");
  let player: Player | undefined;
  feed.addEventListener("message", (event: MessageEvent<string>) => {
    player ??= new Player([liveRun(head)], app);
    player.lost(false);
    player.grow(JSON.parse(event.data) as Part);
  });
  feed.addEventListener("error", () => player?.lost(true));
}

const app = document.getElementById("app")!;
readData(document.getElementById("data")!.textContent ?? "").then(
  ({ brokers, runs, live, predicts, play }) => {
    setMarks(brokers);
    if (live) follow(live); else new Player(runs, app, predicts, play);
  },
  (error: unknown) => app.replaceChildren(h("p", { class: "loading" }, `This page could not be opened: ${String(error)}. Make it again with \`highwater view\`.`)),
);
