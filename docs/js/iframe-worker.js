// Browsers start no Worker from file://. The search's worker runs in a hidden frame there, so that the built site can be
// searched without a server. (The theme would fetch such a script from elsewhere; it looks for one of this name first.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      const inner = frame.contentDocument
      inner.open()
      inner.write(`<script>postMessage = parent.postMessage.bind(parent)</script><script src="${url}"></script>`)
      inner.close()
      this.loaded = new Promise((done) => (frame.onload = done))
      window.addEventListener("message", (event) => {
        if (event.source === this.inside) this.dispatchEvent(new MessageEvent("message", { data: event.data }))
      })
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
