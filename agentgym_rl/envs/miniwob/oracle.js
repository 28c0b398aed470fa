// The oracle's plans: for each task a generator of steps, which reads what is asked (`goal`) and the page, and goes on
// when a step has been carried out. A step is [command, element or point, ...arguments].
(task, goal) => {
  const all = (css, inside = document.querySelector('#area')) => [...inside.querySelectorAll(css)]
  const seen = element => element.getClientRects().length > 0
  const text = element => element.textContent.replace(/\s+/g, ' ').trim()
  const named = (css, name) => all(css).find(element => text(element) === name && seen(element))
  const quoted = [...goal.matchAll(/"([^"]*)"/g)].map(match => match[1])
  const number = Number((goal.match(/\d+/) || [])[0])
  const numbers = (goal.match(/-?\d+/g) || []).map(Number)
  const middle = (element, x = 0.5, y = 0.5) => {
    const box = element.getBoundingClientRect()
    return [Math.round(box.left + box.width * x), Math.round(box.top + box.height * y)]
  }
  const click = element => ['click', element]
  const point = ([x, y]) => ['mouse_click', null, Math.round(x), Math.round(y)]
  const carry = (from, to) => ['mouse_drag', null, ...[...from, ...to].map(Math.round)]
  const enter = (element, words) => ['type', element, words, 0]
  const submit = () => click(all('#subbtn, #submit, button').find(one => /subbtn|submit/.test(one.id)) || named('button', 'Submit'))
  const between = (start, end) => goal.slice(goal.indexOf(start) + start.length, goal.lastIndexOf(end)).trim()
  const most = (list, value) => list.reduce((one, other) => (value(other) > value(one) ? other : one))
  const inSvg = (x, y, svg = all('svg')[0]) => {
    const box = svg.getBoundingClientRect()
    return [box.left + x, box.top + y]
  }
  const place = shape => [Number(shape.getAttribute('cx')), Number(shape.getAttribute('cy'))]

  function* clickNamed() {
    yield click(named('button', quoted[0] || goal.match(/button (\w+)/)[1]))
  }
  function* boxes() {
    const names = between('Select ', ' and click').split(', ')
    for (const label of all('label')) if (names.includes(text(label))) yield click(label.querySelector('input'))
    yield submit()
  }
  function* options() {
    const names = between('Select ', / from /.test(goal) ? ' from ' : ' and click').split(', ')
    const list = all('select')[0]
    for (const name of names) yield ['click', all('option', list).find(option => text(option) === name)]
    yield submit()
  }
  function* sections() {
    for (const header of all('h3')) {
      if (header.getAttribute('aria-expanded') !== 'true') yield click(header)
      const link = all('.alink').find(one => text(one) === quoted[0] && seen(one))
      if (link) return void (yield click(link))
    }
    yield submit()
  }
  function* tabs() {
    if (!quoted.length) return void (yield click(named('a', between('Click on ', '.'))))
    for (const tab of all('[role=tab] a')) {
      yield click(tab)
      const link = all('.alink').find(one => text(one) === quoted[0] && seen(one))
      if (link) return void (yield click(link))
    }
  }
  function* date() {
    const [month, day, year] = goal.match(/(\d+)\/(\d+)\/(\d+)/).slice(1).map(Number)
    yield click(all('#datepicker')[0])
    const shown = () => {
      const [name, of] = text(document.querySelector('.ui-datepicker-title')).split(' ')
      return Number(of) * 12 + new Date(`${name} 1, 2000`).getMonth() + 1
    }
    while (shown() !== year * 12 + month)
      yield click(document.querySelector(shown() > year * 12 + month ? '.ui-datepicker-prev' : '.ui-datepicker-next'))
    yield click([...document.querySelectorAll('.ui-datepicker-calendar a')].find(one => text(one) === String(day)))
    yield submit()
  }
  function* email() {
    const fields = core.currentFields || {}
    const by = fields.by || goal.match(/by (\w+)/)[1]
    const open = all('.email-thread').find(one => text(all('.email-sender', one)[0]) === by)
    const wanted = fields.task || (fields.to || /forward/.test(goal) ? 'forward' : /reply/.test(goal) ? 'reply' : '')
    if (!/forward|reply/.test(wanted))
      return void (yield click(all(/trash|delete/.test(wanted + goal) ? '.trash' : '.star', open)[0]))
    yield click(all('.email-subject', open)[0])
    yield click(all(wanted === 'reply' ? '.email-reply' : '.email-forward')[0])
    if (wanted === 'reply') yield enter(all('#reply-text')[0], fields.message || quoted[0])
    else yield enter(all('.forward-sender')[0], fields.to || goal.match(/to (\w+)\.$/)[1])
    yield click(all(wanted === 'reply' ? '#send-reply' : '#send-forward')[0])
  }
  function* posts() {
    const user = goal.match(/by (@\S+?)(\.| and)/)[1]
    let left = / all posts /.test(goal) ? Infinity : numbers[0]
    for (const post of all('.media'))
      if (text(all('.username', post)[0]) === user && left-- > 0) yield click(all(`.${quoted[0].toLowerCase()}`, post)[0])
    yield submit()
  }
  function* film() {
    const [, genre, name, year] = goal.match(/for (.+) movies directed by (.+) from year (\d+)/)
    const value = {Genre: genre, Director: name, Year: year}
    const word = element => Object.keys(value).find(key => text(element).startsWith(key))
    for (const field of all('input')) {
      const row = field.closest('tr, .ui-entry, p, label, li') || field.parentElement
      yield enter(field, value[word(row) || field.placeholder])
    }
    yield click(named('div, button, span', 'Submit') || named('div, button, span', 'Search'))
  }
  function* suggest() {
    const [start, end = ''] = quoted
    yield enter(all('#tags')[0], ui_utils.COUNTRIES.find(name => name.startsWith(start) && name.endsWith(end)))
    yield ['press', null, 'Escape'] // the list of suggestions covers the button
    yield submit()
  }
  function* slide(slider, value) {
    const handle = slider.querySelector('.ui-slider-handle')
    yield click(handle)
    const now = () => $(slider).slider('value')
    while (now() !== value) yield ['press', null, now() < value ? 'ArrowRight' : 'ArrowLeft']
  }
  function* fields(values) {
    const places = all('input[type=text], input[type=password], textarea').filter(seen)
    for (const [at, value] of values.entries()) yield enter(places[at], value)
    yield submit()
  }
  function* drop(inside) {
    for (const [shape, [x, y]] of inside) yield carry(middle(shape), [x, y])
    yield submit()
  }

  const plans = {
    'ascending-numbers': function* () {
      for (const one of all('text').sort((a, b) => text(a) - text(b))) yield click(one)
    },
    'bisect-angle': function* () {
      const [vertex, ...ends] = [all('circle[fill=blue]')[0], ...all('circle').filter(one => one.getAttribute('fill') !== 'blue')].map(place)
      const turn = ends.map(([x, y]) => Math.atan2(y - vertex[1], x - vertex[0]))
      const half = Math.atan2(Math.sin(turn[0]) + Math.sin(turn[1]), Math.cos(turn[0]) + Math.cos(turn[1]))
      yield point(inSvg(vertex[0] + 30 * Math.cos(half), vertex[1] + 30 * Math.sin(half)))
      yield submit()
    },
    'buy-ticket': function* () {
      const value = one => (/duration/.test(goal) ? all('.time-duration', one)[0].dataset.duration : all('.buy-ticket', one)[0].dataset.price)
      const sign = /longest|most/.test(goal) ? 1 : -1
      yield click(all('button', most(all('.flight'), one => sign * value(one)))[0])
    },
    'choose-list': options,
    'circle-center': function* () {
      yield point(middle(all('circle')[0]))
      yield submit()
    },
    'click-button-sequence': function* () {
      yield click(named('button', 'ONE'))
      yield click(named('button', 'TWO'))
    },
    'click-checkboxes-soft': function* () {
      const names = between('similar to ', ' and click').split(', ')
      const like = word => SYNONYMS.some(some => some.includes(word) && names.some(name => some.includes(name)))
      for (const label of all('label')) if (like(text(label))) yield click(label.querySelector('input'))
      yield submit()
    },
    'click-color': function* () {
      yield click(all('.color').find(one => one.dataset.color === between('on the ', ' colored')))
    },
    'click-dialog': function* () {
      yield click(document.querySelector('.ui-dialog-titlebar button'))
    },
    'click-dialog-2': function* () {
      const buttons = [...document.querySelectorAll('.ui-dialog button')]
      yield click(quoted[0] === 'x' ? buttons[0] : buttons.find(one => text(one) === quoted[0]))
    },
    'click-link': function* () {
      yield click(named('.alink', quoted[0]))
    },
    'click-menu': function* () {
      const path = goal.replace('Select ', '').split('>')
      for (const name of path.slice(0, -1)) yield ['hover', named('li > div', name)]
      yield click(named('li > div', path.at(-1)))
    },
    'click-option': function* () {
      yield click(all('label').find(one => text(one) === between('Select ', ' and click')).querySelector('input'))
      yield submit()
    },
    'click-shades': function* () {
      for (const one of all('span')) if (one.dataset.color === goal.match(/shades of (\w+)/)[1]) yield click(one)
      yield submit()
    },
    'click-test': function* () {
      yield click(all('button')[0])
    },
    'click-widget': function* () {
      yield click(all(`[data-type=${quoted[0]}]`)[0])
    },
    'copy-paste': function* () {
      yield enter(all('input')[0], all('textarea')[0].value)
      yield submit()
    },
    'copy-paste-2': function* () {
      yield enter(all('input')[0], all('textarea')[number - 1].value)
      yield submit()
    },
    'drag-box': function* () {
      yield carry(middle(all('#draggableSmall')[0]), middle(all('#draggableLarge')[0]))
      yield submit()
    },
    'drag-shapes': function* () {
      const kind = goal.match(/all (\w+?)s? into/)[1].replace('triangle', 'polygon').replace('rectangle', 'rect')
      const box = most(all('rect'), one => one.getBoundingClientRect().width)
      const shapes = all(kind).filter(one => one !== box)
      yield* drop(shapes.map((shape, at) => [shape, middle(box, (at + 1) / (shapes.length + 1))]))
    },
    'email-inbox': email,
    'enter-password': () => fields([quoted[0], quoted[0]]),
    'enter-text': () => fields([quoted[0]]),
    'enter-text-2': () => fields([/upper/.test(goal) ? quoted[0].toUpperCase() : quoted[0].toLowerCase()]),
    'find-greatest': function* () {
      yield click(most(all('.card'), one => Number(text(one))))
      yield submit()
    },
    'find-midpoint': function* () {
      const [[x, y], [u, v]] = all('circle').map(place)
      yield point(inSvg((x + u) / 2, (y + v) / 2))
      yield submit()
    },
    'find-word': () => fields([text(all('p')[0]).split(' ')[number - 1].replace(/[^a-zA-Z]/g, '')]),
    'focus-text': function* () {
      yield click(all('input')[0])
    },
    'focus-text-2': function* () {
      yield click(all('input')[number - 1])
    },
    'form-sequence': function* () {
      yield* slide(all('#slider')[0], numbers[0])
      yield click(all('input')[numbers[1] - 1])
      yield submit()
    },
    'form-sequence-2': function* () {
      yield click(all('input[type=radio]')[numbers[0] - 1])
      yield enter(all('input[type=text]')[numbers[2] - 1], quoted[0])
      yield submit()
    },
    'form-sequence-3': function* () {
      yield ['select', all('select')[0], between('Choose ', ' from the dropdown')]
      yield click(named('button', quoted[0]))
    },
    'generate-number': function* () {
      const least = numbers[0]
      const good = n => (/even/.test(goal) ? n % 2 === 0 : /odd/.test(goal) ? n % 2 !== 0 : /less/.test(goal) ? n < least : n > least)
      do yield click(all('#generate')[0])
      while (!good(Number(text(all('#display-number')[0]))))
      yield submit()
    },
    'grid-coordinate': function* () {
      yield click(document.getElementById(goal.match(/\(.*\)/)[0]))
    },
    'guess-number': function* () {
      let [low, high] = [0, 9]
      for (;;) {
        const guess = (low + high) >> 1
        yield ['fill', all('input')[0], String(guess)]
        yield submit()
        if (seen(all('#higher')[0])) low = guess + 1
        else high = guess - 1
      }
    },
    'identify-shape': function* () {
      const shape = all('#area_svg > *')[0]
      const kind = {text: /\d/.test(text(shape)) ? 'digit' : 'letter', rect: 'rectangle', polygon: 'triangle'}[shape.tagName]
      yield click(all(`[data-type=${kind || shape.tagName}]`)[0])
    },
    'login-user': () => fields([quoted[0], quoted[1]]),
    'multi-layouts': film,
    'navigate-tree': function* () {
      const goalItem = all('#tree span').find(one => text(one) === quoted[0])
      const folders = []
      for (let li = goalItem.closest('ul').closest('li'); li; li = li.parentElement.closest('li')) folders.unshift(li)
      for (const folder of folders) if (!seen(goalItem)) yield click(folder.querySelector('span'))
      yield click(goalItem)
    },
    'number-checkboxes': function* () {
      const wanted = PATTERNS[numbers[0]].flat()
      for (const [at, box] of all('input[type=checkbox]').entries()) if (wanted[at]) yield click(box)
      yield submit()
    },
    'odd-or-even': function* () {
      for (const row of all('.row')) yield click(all(Number(text(all('.display-number', row)[0])) % 2 ? '.odd' : '.even', row)[0])
      yield submit()
    },
    'order-food': function* () {
      const items = all('.food-item')
      const names = /each item/.test(goal) ? goal.split(': ')[1].split(', ') : null
      const wanted = names
        ? items.filter(one => names.includes(one.dataset.item.trim()))
        : Array(number).fill(items.find(one => all('img', one).some(img => img.alt === goal.split(' are ')[1])))
      for (const item of wanted) yield click(all('.add', item)[0])
      yield click(named('button', 'Order!'))
    },
    'phone-book': function* () {
      const [, name, what] = goal.match(/Find (\w+) in .* their (?:\w+ )*?(phone|email|address)/)
      while (text(all('.name')[0]) !== name) yield click(named('.page-link', '>'))
      yield click(all(`a.${what}`)[0])
    },
    'read-table': () => fields([text(all('td').find(cell => text(cell) === between('value of ', ' into')).nextSibling)]),
    'read-table-2': () => fields(all('label').map(one => text(all('td').find(cell => text(cell) === one.dataset.key).nextSibling))),
    'right-angle': function* () {
      const [x, y] = place(all('circle[fill=blue]')[0])
      const [u, v] = place(all('circle').find(one => one.getAttribute('fill') !== 'blue'))
      const [side] = [1, -1].map(sign => [x - sign * (v - y), y + sign * (u - x)]).filter(([a, b]) => a > 2 && a < 145 && b > 2 && b < 120)
      const far = side || [x - (v - y) / 2, y + (u - x) / 2]
      yield point(inSvg(...far))
      yield submit()
    },
    'scroll-text': function* () {
      yield enter(all('input')[0], all('textarea')[0].value.trim().split(/\s+/).at(-1).replace(/[^a-zA-Z]/g, ''))
      yield submit()
    },
    'scroll-text-2': function* () {
      yield click(all('textarea')[0])
      yield ['press', null, 'Control+End']
      yield submit()
    },
    'search-engine': function* () {
      yield enter(all('#search-text')[0], quoted[0])
      yield click(all('#search')[0])
      const wanted = number - 1
      for (let page = 0; page < Math.floor(wanted / 3); page++) yield click(named('.page-link', '>'))
      yield click(all('#page-content a')[wanted % 3])
    },
    'simple-algebra': function* () {
      const [, first, sign, second, result] = text(all('#math-problem')[0]).match(/(\w+) ([-+]) (\w+) = (-?\d+)/)
      const known = Number(first === 'x' ? second : first)
      yield* fields([String(sign === '+' ? result - known : first === 'x' ? Number(result) + known : known - result)])
    },
    'simple-arithmetic': function* () {
      const [, one, sign, other] = text(all('#math-problem')[0]).match(/(-?\d+) (\S) (-?\d+)/)
      yield* fields([String(sign === '+' ? +one + +other : sign === '-' ? one - other : one * other)])
    },
    'social-media': function* () {
      const post = all('.media').find(one => text(all('.username', one)[0]) === goal.match(/user (@\S+),/)[1])
      const button = all(`.controls > .${quoted[0].toLowerCase().replace(/\W.*/, '')}`, post)[0]
      if (button) return void (yield click(button))
      yield click(all('.more', post)[0])
      yield click(all('li', post).find(one => text(one).startsWith(quoted[0])))
    },
    'social-media-all': posts,
    'text-transform': () => fields([text(all('#captcha')[0])]),
    'unicode-test': clickNamed,
    'use-autocomplete': suggest,
    'use-slider': function* () {
      yield* slide(all('#slider')[0], numbers[0])
      yield submit()
    },
    'use-slider-2': function* () {
      for (const [at, slider] of all('.ui-slider').entries()) yield* slide(slider, numbers[at])
      yield submit()
    },
    'use-spinner': function* () {
      const now = () => Number(all('input')[0].value)
      yield click(all('input')[0])
      while (now() !== numbers[0]) yield ['press', null, now() < numbers[0] ? 'ArrowUp' : 'ArrowDown']
      yield submit()
    },
    'visual-addition': () => fields([String(all('.addition-block').length)]),
  }
  const families = {
    'choose-date': date, 'click-button': clickNamed, 'click-checkboxes': boxes, 'click-collapsible': sections, 'click-tab': tabs,
    'click-test': clickNamed, 'email-inbox': email, 'click-scroll-list': options, 'enter-text': plans['enter-text'],
    'login-user': plans['login-user'], 'multi': film, 'social-media': posts, 'use-autocomplete': suggest,
  }
  const family = Object.keys(families).sort((a, b) => b.length - a.length).find(name => task.startsWith(name))
  const plan = plans[task] || families[family]
  const steps = plan ? plan() : null
  window.agentgymNext = () => {
    const step = steps && steps.next()
    if (!step || step.done) return null
    const [command, target, ...given] = step.value
    window.agentgymTarget = target
    if (command !== 'press' && target === undefined) return null
    return [command, target ? middle(target) : null, given.map(String)]
  }
}
