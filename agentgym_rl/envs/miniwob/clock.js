// What makes a page the same each time. Its clock (dates, timers, frames of animations) stands still until
// `agentgymClock.advance` moves it, so that neither the agent's thinking nor a busy machine changes anything; what it
// draws before the task's seed is set is drawn from a fixed seed; and it cannot be left.
{
  let drawn = 1
  Math.random = () => (drawn = (drawn * 48271) % 2147483647) / 2147483647
  navigation.addEventListener('navigate', event => event.hashChange || !event.cancelable || event.preventDefault())

  const start = Date.UTC(2024, 5, 12, 12)
  const timers = new Map()
  let now = 0
  let last = 0

  const add = (callback, after, every, given) => {
    const call = typeof callback === 'function' ? callback : new Function(callback)
    timers.set(++last, {at: now + Math.max(Number(after) || 0, every ? 1 : 0), every, call, given})
    return last
  }
  const remove = id => void timers.delete(id)

  window.Date = new Proxy(Date, {
    construct: (date, given, made) => Reflect.construct(date, given.length ? given : [start + now], made),
    apply: date => new date(start + now).toString(),
    get: (date, key) => (key === 'now' ? () => start + now : date[key]),
  })
  performance.now = () => now
  window.setTimeout = (callback, after, ...given) => add(callback, after, 0, given)
  window.setInterval = (callback, after, ...given) => add(callback, after, Math.max(Number(after) || 0, 1), given)
  window.requestAnimationFrame = callback => add(() => callback(now), 16, 0, [])
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = remove

  const advance = async milliseconds => {
    const end = now + milliseconds
    for (let calls = 0; calls < 10000; calls++) {
      const due = [...timers].filter(([, timer]) => timer.at <= end)
      if (!due.length) break
      const [id, timer] = due.reduce((one, other) => (other[1].at < one[1].at ? other : one))
      now = Math.max(now, timer.at)
      if (timer.every) timer.at = now + timer.every
      else timers.delete(id)
      try {
        timer.call.apply(window, timer.given)
      } catch (error) {
        reportError(error)
      }
      await null // what the callback promised comes first
    }
    now = end
  }
  Object.defineProperty(window, 'agentgymClock', {value: {advance}})
}
